#include <fmt/format.h>

#include <utility>

#include "network/cuda/decide/contraction_kernels.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/cuda/tensor/operators.hpp"

namespace unisono::network::gpu {

namespace {

// A tensor that only an upsampling reads, while the region is emitted
void place_only_upsampled(RegionEmission& e, const Region& r) {
  const TensorId id = *r.only_upsampled;
  PitchedTensor tensor = stored_tensor(e.in, r, id, Beside::nothing);
  const std::int64_t rows = element_count(e.sizes(id)) / column_count(e.sizes(id));
  tensor.at = e.launches.scratch(2 * static_cast<std::size_t>(rows) * static_cast<std::size_t>(tensor.pitch));
  e.in_scratch[id] = tensor;
}

std::map<std::string, Location> outputs_in_scratch(const RegionEmission& e, const Region& r) {
  std::map<std::string, Location> placed;
  for (const RegionOutput& o : r.outputs)
    if (const auto at = e.in_scratch.find(o.tensor); at != e.in_scratch.end()) placed[o.name] = at->second.at;
  return placed;
}

// The contraction and its epilogue
void emit_parts(RegionEmission& e, const Region& r, const ContractionPlan& plan) {
  if (plan.whole) return emit_kernel(e, *plan.whole, outputs_in_scratch(e, r));
  const Extents space = extents(e.in.contraction(*e.op));
  const std::int64_t pitch = (space.cols + 7) / 8 * 8;
  PitchedTensor sums{e.launches.scratch(4 * static_cast<std::size_t>(space.rows() * pitch)), pitch, e.in.element};
  if (plan.bare) {
    emit_kernel(e, *plan.bare, {{"sums", sums.at}});
  } else {
    sums.type = DType::f32;
    emit_direct(e, sums, *plan.not_bare);
  }
  emit_graph(e, r, space, sums, plan.not_whole);
}

// What is made of a region's output, by kernels of their own
void emit_resampled(RegionEmission& e, const Region& r, const Refusal& why) {
  for (const ResampledStore& s : r.resampled) {
    if (e.in.is_empty(s.to)) continue;
    e.op = &e.net().operators[s.op];
    e.name = e.in.name(s.to);
    const auto made = tensor_launches(e.in, *e.op, e.in_scratch);
    if (!made) e.refuse(made.refusal().first());
    emit_tensor_kernels(e, *made, describe(e.net(), *e.op));
    e.launches.last().how += fmt::format(": the kernel of '{}' does not store it: {}", e.in.name(s.from), why.first());
  }
}

}  // namespace

void emit_contraction(RegionEmission& e, const RegionPlan& plan) {
  const Region& r = e.in.region(e.index);
  const bool resampled_apart = !r.resampled.empty() && plan.beside != Beside::resampled;
  if (resampled_apart && r.only_upsampled) place_only_upsampled(e, r);
  emit_parts(e, r, *plan.contraction);
  if (resampled_apart) emit_resampled(e, r, *plan.apart);
}

}  // namespace unisono::network::gpu
