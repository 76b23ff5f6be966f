#pragma once
/// The parameter of this family's kernels: kernels/unisono/params/plain_conv_params.cuh, then the visitor's fields.

#include "families/interface/family.hpp"
#include "families/plain/space.hpp"
#include "unisono/params/plain_conv_params.cuh"

namespace unisono::families::plain {

plan::Expected<std::size_t> parameter_bytes(std::size_t fields);

PlainConvGeometry geometry(const plan::ConvTask& task, const PlainPlan& plan);
PlainNormParams norm(const Launched& what);

void fill(Parameter& to, const PlainPlan& plan, const Launched& what, const Tensors& tensors);

void place_workspace(PlainConvParams& to, const PlainPlan& plan, std::uint64_t base);

}  // namespace unisono::families::plain
