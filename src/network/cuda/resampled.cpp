/// What the kernels of contractions make of an output as they store it, and what follows by itself instead.

#include <fmt/format.h>

#include "network/cuda/lowering.hpp"
#include "network/names.hpp"
#include "network/resize_tables.hpp"

namespace unisono::network::gpu {

namespace {

bool repeats_each_twice(const cpu::AxisTable& table) {
  for (std::size_t i = 0; i < table.low.size(); ++i)
    if (table.low[i] != static_cast<std::int64_t>(i / 2)) return false;
  return table.weight.empty();
}

}  // namespace

std::string Lowering::refuse_resampled(const Region& r) const {
  for (const ResampledStore& s : r.resampled) {
    const Sizes &x = sizes(s.from), &y = sizes(s.to);
    if (element_count(y) == 0) return fmt::format("'{}' is empty", net()[s.to].name);
    if (s.pooled) continue;
    const auto& resize = std::get<operators::Resize>(net().operators[s.op].kind);
    const double scale[] = {resize.height != 0 ? 0 : resize.scale_h, resize.width != 0 ? 0 : resize.scale_w};
    for (const std::size_t axis : {0u, 1u})
      if (y[2 + axis] != 2 * x[2 + axis] ||
          !repeats_each_twice(axis_table(resize, x[2 + axis], y[2 + axis], scale[axis])))
        return fmt::format("'{}' repeats other pixels than each twice", net()[s.to].name);
  }
  return {};
}

void Lowering::resample(const Region& r, const std::string& why) {
  const Operator* const contraction = op_;
  for (const ResampledStore& s : r.resampled) {
    op_ = &net().operators[s.op];
    if (element_count(sizes(s.to)) == 0) continue;
    name_ = net()[s.to].name;
    std::visit(*this, op_->kind);
    lowered_.steps.back()->how += fmt::format(": the kernel of '{}' does not store it: {}", net()[s.from].name, why);
  }
  op_ = contraction;
}

}  // namespace unisono::network::gpu
