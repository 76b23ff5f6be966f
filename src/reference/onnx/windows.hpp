#pragma once
/// The windows of convolutions and pools, and what else definitions in several files share.

#include "reference/onnx/call.hpp"

namespace unisono::float64 {

/// By spatial axis.
struct Windows {
  Extents64 kernel, stride, dilation, before, after;
};

/// What strides, dilations, pads and auto_pad say for these extents.
Windows windows_of(const Call& call, const Extents64& extents, const Extents64& kernel);

[[noreturn]] void throw_unsupported_axes(const Call& call);

// einsum.cpp
void define_einsum(Call& call);

}  // namespace unisono::float64
