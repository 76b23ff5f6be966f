/// Operands of epilogue graphs as kernels read them: rows of neighbouring columns (operand_view.hpp).

#include <fmt/format.h>

#include "network/cuda/lowering.hpp"
#include "network/names.hpp"
#include "network/operand_view.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

OperandView Lowering::view(const RegionOperand& o, const Operator& first, const Sizes& along) const {
  const auto v = operand_view(o, sizes(o.tensor), along, sizes(first.output));
  if (!v) throw InternalError(fmt::format("{}: '{}' does not fit", where(first), net()[o.tensor].name));
  return *v;
}

Located Lowering::operand(const RegionOperand& o, const Operator& first, std::int64_t padded_columns) const {
  if (is_constant(o.tensor) && !(o.axes == axes::mn)) {
    const Sizes& s = sizes(o.tensor);
    const OperandView v = view(o, first, logical_strides(s, column_count(s)));
    return {p_.constants.operand(o.tensor, v, o.axes, padded_columns), packed_rows(v, o.axes, padded_columns).pitch,
            DType::f32};
  }
  if (const auto at = gathered_.find(o.name); at != gathered_.end()) return at->second;
  Located at = located(o.tensor);
  const auto rows = pitched_rows(view(o, first, strides(o.tensor)), o.axes);
  if (!rows) throw InternalError(fmt::format("{}: '{}' was not gathered", where(first), net()[o.tensor].name));
  at.pitch = rows->pitch;
  return at;
}

Interval Lowering::operand_memory(const RegionOperand& o) const {
  const auto at = gathered_.find(o.name);
  if (at == gathered_.end()) return all_of(o.tensor);
  return interval(at->second.place, 1, gathered_bytes_.at(o.name), gathered_bytes_.at(o.name));
}

// Computed tensors whose columns do not lie together, such as (C,1,1) over an image: packed by a launch of their own
void Lowering::gather_operands(const Region& r) {
  gathered_.clear(), gathered_bytes_.clear();
  for (const RegionOperand& o : r.operands) {
    if (is_constant(o.tensor)) continue;
    const OperandView v = view(o, *op_, strides(o.tensor));
    if (pitched_rows(v, o.axes)) continue;
    const PitchedRows packed = packed_rows(v, o.axes, p_.fused.style.pitch(v.columns));
    const std::int64_t bytes = packed.rows * packed.pitch * static_cast<std::int64_t>(size_of(p_.element));
    const Located to{scratch(static_cast<std::size_t>(bytes)), packed.pitch, p_.element};
    const std::int64_t per_image = o.axes.row == RowAxis::m ? v.rows : 1;
    const Sizes extents{packed.rows / per_image, per_image, packed.columns};
    gathered_[o.name] = to;
    gathered_bytes_[o.name] = bytes;
    copy({.extents = extents,
          .source = extents,
          .before = {0, 0, 0},
          .from = located(o.tensor),
          .to = to,
          .from_strides = {v.image, v.row, v.column},
          .to_strides = {per_image * packed.pitch, packed.pitch, 1},
          .read = o.tensor,
          .written = interval(to.place, 1, bytes, bytes)});
    lowered_.steps.back()->what =
        fmt::format("gathers '{}' {} as {}", net()[o.tensor].name, to_string(net()[o.tensor].shape), to_string(o.axes));
  }
}

}  // namespace unisono::network::gpu
