/// Operands that the kernels of a region cannot read where they are.

#include <fmt/format.h>

#include "network/cuda/emit/emission.hpp"
#include "tensors/moves.hpp"

namespace unisono::network::gpu {

namespace {

// Elements of an operand along images, the rows of one, and columns
tensors::StridedTensor as_rows(const PitchedTensor& tensor, const Sizes& extents, const Sizes& strides) {
  WholeTensor whole = whole_tensor(tensor, extents, DType::f32);
  whole.strided.strides = strides;
  return whole.strided;
}

}  // namespace

void emit_gathered_operands(RegionEmission& e, const Region& r, const RegionPlan& plan) {
  for (const GatheredOperand& g : plan.gathered) {
    const RegionOperand& o = r.operands[g.operand];
    const std::int64_t bytes = g.packed.rows * g.packed.pitch * static_cast<std::int64_t>(size_of(e.in.element));
    const PitchedTensor from = e.tensor(o.tensor),
                        to{e.launches.scratch(static_cast<std::size_t>(bytes)), g.packed.pitch, e.in.element};
    const std::int64_t per_image = o.axes.row == RowAxis::m ? g.view.rows : 1;
    const Sizes extents{g.packed.rows / per_image, per_image, g.packed.columns};
    const Interval memory = interval(to.at, 1, bytes, bytes);
    e.gathered[o.name] = {to, memory};
    auto made = tensors::move(as_rows(from, extents, {g.view.image, g.view.row, g.view.column}),
                              as_rows(to, extents, {per_image * g.packed.pitch, g.packed.pitch, 1}));
    if (!made) e.refuse(made.refusal().first());
    const auto moved = 2 * static_cast<double>(element_count(extents));
    emit_tensor_kernels(e, {*std::move(made), {{from.at, e.all_of(o.tensor), moved}, {to.at, memory, moved}}},
                        fmt::format("gathers '{}' {} as {}", e.in.name(o.tensor), to_string(e.net()[o.tensor].shape),
                                    to_string(o.axes)));
  }
}

}  // namespace unisono::network::gpu
