#include "network/cuda/input.hpp"

#include <fmt/format.h>

#include "network/names.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

PitchedTensor computed(const Memory& m, std::size_t inputs, DType type) {
  const bool is_output = m.where == Memory::Where::output;
  if (is_output || m.where == Memory::Where::input)
    return {{Location::Space::given, m.offset, {}, m.index + (is_output ? inputs : 0)}, m.row_stride, type};
  return {{Location::Space::arena, m.index + m.offset, {}}, m.row_stride, type};
}

}  // namespace

PitchedTensor PlanningInput::tensor(TensorId id) const {
  if (fused.own_type[id]) return typed_tensor(id);
  const std::int64_t columns = column_count(sizes(id)), pitch = fused.style.pitch(columns);
  if (is_constant(id)) return {constants.rows(id, columns, pitch), pitch, element};
  return computed(storage.memory[id], net().inputs.size(), element);
}

PitchedTensor PlanningInput::typed_tensor(TensorId id) const {
  const DType own = net()[id].dtype;
  if (is_constant(id)) return {constants.typed(id), column_count(sizes(id)), own};
  return computed(storage.memory[id], net().inputs.size(), fused.own_type[id] ? own : element);
}

PitchedTensor PlanningInput::element_tensor(TensorId id) const {
  if (fused.own_type[id])
    throw InternalError(fmt::format("'{}' lies in memory as {}, and a kernel takes it for {}", name(id),
                                    to_string(net()[id].dtype), to_string(element)));
  return tensor(id);
}

bool PlanningInput::is_launched(const Region& r) const {
  return r.kind != RegionReport::Kind::free && !is_empty(first(r).output);
}

OperandView view_of(const PlanningInput& in, const RegionOperand& o, const Operator& first, const Sizes& strides) {
  const auto v = operand_view(o, in.sizes(o.tensor), strides, in.sizes(first.output));
  if (!v) throw InternalError(fmt::format("{}: '{}' does not fit", where(first), in.name(o.tensor)));
  return *v;
}

OperandView view_of(const PlanningInput& in, const RegionOperand& o, const Operator& first) {
  return view_of(in, o, first, logical_strides(in.sizes(o.tensor), in.tensor(o.tensor).pitch));
}

DType operand_type(const PlanningInput& in, const RegionOperand& o) {
  const bool is_vector = in.is_constant(o.tensor) && !(o.axes == axes::mn);
  return is_vector || in.fused.own_type[o.tensor] ? DType::f32 : in.element;
}

std::optional<PitchedTensor> operand_tensor(const PlanningInput& in, const RegionOperand& o, const Operator& first,
                                            std::int64_t padded_columns) {
  if (in.is_constant(o.tensor) && !(o.axes == axes::mn)) {
    const Sizes& s = in.sizes(o.tensor);
    const OperandView v = view_of(in, o, first, logical_strides(s, column_count(s)));
    return PitchedTensor{in.constants.operand(o.tensor, v, o.axes, padded_columns),
                         packed_rows(v, o.axes, padded_columns).pitch, DType::f32};
  }
  const auto rows = pitched_rows(view_of(in, o, first), o.axes);
  if (!rows) return std::nullopt;
  PitchedTensor at = in.tensor(o.tensor);
  at.pitch = rows->pitch;
  return at;
}

}  // namespace unisono::network::gpu
