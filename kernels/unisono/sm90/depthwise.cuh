// Convolutions whose groups have one input channel: every product is of elements of one channel, so that there is
// nothing for matrix instructions to add up, and memory bounds them. Ordinary multiplications, nothing staged but the
// filters.
//
// A thread computes kVector neighbouring channels of a strip of the output, kWide pixels wide and some image rows high,
// in f32. It reads the image rows under them from the top, each once, as vectors of channels (16 bytes for 8 of 16
// bits), kAhead image rows before their use; widens each element once; and multiplies it by all taps of the filter
// that some output of the strip has there, at most R image rows of sums at a time. An image row of outputs that is
// complete goes through the epilogue. At stride 1 an input is so loaded (kWide + S - 1) / kWide times, and a little
// more where strips meet, mostly from L1. With dilation d a strip's pixels are d apart, and d x d such lattices fill
// the image: the taps of one meet again in the same inputs.
//
// A CTA has kTileN channels and holds their filters in shared memory as f32, [tap][channel]; threads that differ by one
// have neighbouring vectors of channels, then neighbouring strips. Those of a size that is known stay in registers.
// The order of every sum is that of the taps: the same bits each run.
#pragma once
#include "unisono/sm90/depthwise_epilogue.cuh"
#include "unisono/sm90/depthwise_kernel.cuh"
#include "unisono/sm90/depthwise_multiply.cuh"
