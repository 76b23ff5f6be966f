#pragma once
/// The parameter of this family's kernels: kernels/unisono/params/sm80_conv_params.cuh, then the visitor's fields.

#include "families/interface/family.hpp"
#include "families/mma/plan.hpp"
#include "unisono/params/sm80_conv_params.cuh"

namespace unisono::families::mma {

plan::Expected<std::size_t> parameter_bytes(std::size_t fields);

Sm80ConvParams constants(const MmaPlan& plan, const Launched& what);

void fill(Parameter& to, const MmaPlan& plan, const Launched& what, const Tensors& tensors);

void place_workspace(Sm80ConvParams& to, const MmaPlan& plan, const plan::Epilogue& epilogue, std::uint64_t base);

}  // namespace unisono::families::mma
