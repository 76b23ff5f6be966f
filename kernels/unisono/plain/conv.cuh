// Convolutions, their transposes and products on any architecture: multiply-adds of f32, no matrix instructions.
//
// Two ways to compute. Tiles: a CTA has kTileM rows (pixels, which may be of several images) x kTileN channels of a
// group; kTileK taps and channels at a time of both operands are widened to f32 and laid into shared memory, while
// those of the next step are on their way to registers; a thread has kEachM x kEachN sums. Directly (kDirect), for
// groups of few channels: a thread has one sum, and reads its operands through L1. The order of every sum is that of
// taps and channels: the same bits each run.
//
// A tile's sums go through shared memory to the epilogue, so that neighbouring threads have neighbouring outputs.
// With a normalisation the launch is cooperative: all CTAs meet twice (plain/conv_norm.cuh).
#pragma once
#include "unisono/plain/conv_epilogue.cuh"
#include "unisono/plain/conv_kernel.cuh"
#include "unisono/plain/conv_norm.cuh"
#include "unisono/plain/conv_tile.cuh"
