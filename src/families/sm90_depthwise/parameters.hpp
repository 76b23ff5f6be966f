#pragma once
/// The parameter of a depthwise convolution's kernel.

#include <cstddef>
#include <cstdint>

#include "families/interface/parameters.hpp"
#include "families/sm90_depthwise/depthwise.hpp"
#include "plan/as_convolution.hpp"
#include "plan/expected.hpp"
#include "unisono/params/params.cuh"

namespace unisono::families::sm90_depthwise {

ConvGeometry geometry(const plan::ConvTask& task, const DepthwisePlan& plan);

/// `pitch`: elements from pixel to pixel; 0: they lie together.
DepthwiseImage depthwise_image(const plan::ConvTask& task, const DepthwisePlan& plan, const void* memory,
                               std::int64_t pitch = 0);

/// Bytes that a kernel with so many fields declares; refuses more than there is room for.
plan::Expected<std::size_t> parameter_bytes(std::size_t fields);

/// Fills all that depends on memory.
void fill(Parameter& to, const plan::ConvTask& task, const DepthwisePlan& plan, const Tensors& tensors);

}  // namespace unisono::families::sm90_depthwise
