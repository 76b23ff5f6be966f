#pragma once
/// Convolutions of volumes: their attributes.

#include <cstdint>

#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

/// Three entries each: depth, height, width.
struct Volumes {
  Extents64 stride, dilation, before, after, output_pad;
  std::int64_t groups = 1;
  bool transposed = false;
};

}  // namespace unisono::cpu
