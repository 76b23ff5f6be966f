// Kernels at the border of a network and between its contractions. One thread makes an octet of neighbouring channels
// of a pixel, or one element; any grid serves any extent.
#pragma once
#include "unisono/epilogue/math.cuh"
#include "unisono/epilogue/operands.cuh"
#include "unisono/plain/border.cuh"
#include "unisono/plain/pool_images.cuh"
