#pragma once
/// Tensor maps in the driver's encoding.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/conv.hpp"
#include "runtime/cuda/parameters.hpp"
#include "unisono/contraction.hpp"

namespace unisono::cuda {

struct Addresses {
  const void *activation = nullptr, *filter = nullptr;
  const void *output = nullptr, *side = nullptr;        ///< side: null without a second store
  std::int64_t step_a = 0, step_b = 0;                  ///< elements from one product's matrix to the next; 0: dense
  std::int64_t activation_pitch = 0, output_pitch = 0;  ///< elements from pixel to pixel; 0: they lie together
  const void *enlarged = nullptr, *pooled = nullptr;    ///< what is made of the output
  std::int64_t enlarged_pitch = 0, pooled_pitch = 0;
  std::vector<const void*> fetched = {};  ///< operands [m,n] that the copy engine brings, as many as the plan says
  HeadOutput head = {};                   ///< with a plan that has one
  std::span<const std::uint64_t> head_fields = {};  ///< of its visitor
};

/// Fills the four maps, or what stands in their place, and those behind ConvParams. Throws DeviceError with the shape
/// that the driver refused.
void encode_maps(Parameters& parameters, const plan::ConvTask& task, const plan::ConvPlan& plan,
                 const Addresses& addresses);

}  // namespace unisono::cuda
