#pragma once
/// The parameter of a kernel, as kernels/unisono/params/params.cuh lays it out. Needs no driver.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "families/sm90_conv/conv.hpp"
#include "families/sm90_depthwise/depthwise.hpp"
#include "plan/epilogue.hpp"
#include "unisono/contraction.hpp"
#include "unisono/params/params.cuh"

namespace unisono::cuda {

inline constexpr std::size_t most_fields = 384;   ///< of a visitor: with them a parameter stays below 4 KB
inline constexpr std::size_t fields_of_map = 16;  ///< in whose place a further map stands

/// ConvParams, and behind it further maps, if the plan has any, and the visitor's fields of 8 bytes each.
struct alignas(64) Parameters {
  ConvParams conv;
  std::array<std::uint64_t, most_fields> fields;

  Parameters() { std::memset(static_cast<void*>(this), 0, sizeof *this); }  // what lies between members, too

  void set_further(std::size_t i, const TensorMap& map) { std::memcpy(&fields[i * fields_of_map], &map, sizeof map); }
};

static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "as the driver's CUtensorMap");
static_assert(sizeof(Entry) == 16, "an entry is read and written as one");
static_assert(offsetof(Parameters, fields) == sizeof(ConvParams), "what is behind ConvParams follows at once");
static_assert(sizeof(TensorMap) == 8 * fields_of_map && sizeof(ConvParams) % alignof(TensorMap) == 0);
static_assert(sizeof(Parameters) <= 4096, "what every driver takes as a kernel's parameters");

/// Bytes that a kernel with so many fields and further maps declares: alignas(64) struct { ConvParams; maps; struct {
/// fields }; }.
constexpr std::size_t parameter_bytes(std::size_t fields, std::size_t maps = 0) {
  const std::size_t visitor = fields == 0 ? 1 : 8 * fields;  // an empty struct has a size too
  return (sizeof(ConvParams) + maps * sizeof(TensorMap) + visitor + 63) / 64 * 64;
}

/// All that does not depend on memory.
ConvGeometry geometry(const plan::ConvTask& task, const plan::ConvPlan& plan);
ConvGeometry geometry(const plan::ConvTask& task, const plan::DepthwisePlan& plan);

/// What stands in a map's place where operands are loaded and outputs stored without one. `step`: elements from one
/// product's matrix to the next; 0: dense.
GatheredImage gathered_image(const plan::ConvTask& task, const void* memory, std::int64_t step = 0);
GatheredFilter gathered_filter(const plan::ConvTask& task, const void* memory, std::int64_t step = 0);

/// The same of a depthwise convolution; `pitch`: elements from pixel to pixel, 0: they lie together.
DepthwiseImage depthwise_image(const plan::ConvTask& task, const plan::DepthwisePlan& plan, const void* memory,
                               std::int64_t pitch = 0);

/// Fills norm, split and launch with addresses inside the workspace that starts at `base`.
void place_workspace(ConvParams& params, const plan::ConvPlan& plan, const plan::Epilogue& epilogue,
                     std::uint64_t base);

}  // namespace unisono::cuda
