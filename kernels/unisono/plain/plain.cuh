// Kernels for what stands between the contractions of a network, and for contractions that the tensor cores' kernels do
// not serve. One thread makes an octet of neighbouring channels of a pixel, or one element; any grid serves any extent.
#pragma once
#include "unisono/epilogue/operands.cuh"
#include "unisono/plain/border.cuh"
#include "unisono/plain/copies.cuh"
#include "unisono/plain/direct.cuh"
#include "unisono/plain/windows.cuh"
