// Tensors of the caller's, as kernels find them. A plain struct, the same to the host's compiler.
#pragma once
#include "unisono/params/element_codes.cuh"
#include "unisono/params/params.cuh"

namespace unisono {

// A tensor of the caller's, in a table in device memory: a replay finds there what it is to read and write.
constexpr int kCallerAxes = 8;
struct CallerTensor {
  void* memory;
  i64 strides[kCallerAxes];  // of image, image row, pixel, channel; of a tensor with more than four axes, of these
  ElementCode type;          // of one that is f32 in the network; of others none
  int unused;
};

}  // namespace unisono
