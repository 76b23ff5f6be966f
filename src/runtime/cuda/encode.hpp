#pragma once
/// Tensor maps in the driver's encoding.

#include <cstdint>
#include <span>
#include <vector>

#include "families/sm90_conv/conv.hpp"
#include "runtime/cuda/parameters.hpp"
#include "runtime/cuda/slots.hpp"
#include "unisono/contraction.hpp"

namespace unisono::cuda {

struct Addresses {
  Address activation = {}, filter = {};
  Address output = {}, side = {};                       ///< side: null without a second store
  std::int64_t step_a = 0, step_b = 0;                  ///< elements from one product's matrix to the next; 0: dense
  std::int64_t activation_pitch = 0, output_pitch = 0;  ///< elements from pixel to pixel; 0: they lie together
  Address enlarged = {}, pooled = {};                   ///< what is made of the output
  std::int64_t enlarged_pitch = 0, pooled_pitch = 0;
  std::vector<Address> fetched = {};                ///< operands [m,n] that TMA brings, as many as the plan says
  HeadOutput head = {};                             ///< with a plan that has one
  Address head_memory = {}, head_filter = {};       ///< the same addresses, with their slots
  std::span<const std::uint64_t> head_fields = {};  ///< of its visitor
  std::span<const std::size_t> head_field_slots = {};
};

/// Fills the four maps, or what stands in their place, and those behind ConvParams, and says where each slot's address
/// went. Throws DeviceError with the shape that the driver refused.
void encode_maps(Parameters& parameters, const plan::ConvTask& task, const plan::ConvPlan& plan,
                 const Addresses& addresses, std::vector<Site>& sites);

/// Fills what stands in the place of the maps of a depthwise convolution.
void place_depthwise(Parameters& parameters, const plan::ConvTask& task, const plan::DepthwisePlan& plan,
                     const Addresses& addresses, std::vector<Site>& sites);

/// Puts another address, or the bits of another number, where a site says. Throws DeviceError.
void move_site(Parameters& parameters, const Site& site, const void* data);
void move_site(Parameters& parameters, const Site& site, std::uint64_t bits);

}  // namespace unisono::cuda
