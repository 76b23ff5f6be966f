/// Comparisons, choices, conversions and other elementwise operators that no epilogue has.

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

template <MapOp op>
void unary(const NodeReader& node) {
  node.result(node.map(op, {node.value(0)}));
}

template <MapOp op>
void binary(const NodeReader& node) {
  node.result(node.map(op, node.values(2)));
}

void import_equal(const NodeReader& node) {
  if (!import_integer_equal(node)) binary<MapOp::equal>(node);
}

// Whether a tensor of this shape is one of the other when it is broadcast to it
bool is_broadcast_to(const Shape& from, const Shape& to) {
  const auto fits = [](const Dim& d, const Dim& whole) { return d == whole || (d.known() && d.value() == 1); };
  return from.size() <= to.size() && std::equal(from.rbegin(), from.rend(), to.rbegin(), fits);
}

// What a constant condition chooses everywhere, if that has the shape of the result
std::optional<NetworkValue> chosen_everywhere(const std::vector<NetworkValue>& operands) {
  const NetworkTensor& condition = operands[0].tensor();
  if (!condition.is_constant() || condition.dtype != DType::boolean) return std::nullopt;
  const std::span<const std::byte> holds = condition.elements();
  const std::int64_t others = std::ranges::count(holds, std::byte{0});
  if (holds.empty() || (others != 0 && others != std::ssize(holds))) return std::nullopt;
  const NetworkValue chosen = operands[others == 0 ? 1 : 2], other = operands[others == 0 ? 2 : 1];
  const bool is_whole =
      is_broadcast_to(condition.shape, chosen.shape()) && is_broadcast_to(other.shape(), chosen.shape());
  return is_whole && chosen.dtype() == other.dtype() ? std::optional(chosen) : std::nullopt;
}

void import_where(const NodeReader& node) {
  if (import_integer_where(node)) return;
  const std::vector<NetworkValue> operands = node.values(3);
  const auto chosen = chosen_everywhere(operands);
  node.result(chosen ? *chosen : node.map(MapOp::select, operands));
}

void import_mod(const NodeReader& node) {
  if (node.integer("fmod", 0) != 0) return binary<MapOp::fmod>(node);
  constexpr int any_type = 28;  // the first opset that defines fmod=0 for floats
  if (is_float(node.value(0).dtype()) && node.opset() < any_type)
    node.fail("floats need fmod=1 before opset {}; the model has opset {}", any_type, node.opset());
  binary<MapOp::mod>(node);
}

// Short floats are f32 that hold values of that type: rounded where the model casts
void cast_to(const NodeReader& node, int type) {
  const auto to = dtype_of(type);
  if (!to) node.fail("a cast to {} is not supported", data_type_name(type));
  if (node.is_integers(0) && (*to == DType::i64 || *to == DType::i32)) {
    Integers v = node.integers(0);
    bool fits = true;
    for (const Dim& d : v.elements)
      fits = fits && (*to == DType::i64 || !d.known() || d.value() == static_cast<std::int32_t>(d.value()));
    v.dtype = *to;
    if (fits) return node.result(std::move(v));
  }
  NetworkValue x = node.value(0);
  if (is_short_float(type)) {
    if (node.type(0) != type) x = node.cast(node.cast(x, *to), DType::f32);
    return node.result_of_type(x, type);
  }
  x = node.cast(x, *to);
  // a Range may count to it; f32 has every extent below 2^24, and i16 those below 2^15
  if (*to == DType::f32 || *to == DType::f64 || *to == DType::i16) {
    if (node.is_integers(0)) node.remember_cast(x, node.integers(0));
    if (const auto before = node.cast_from(0)) node.remember_cast(x, *before);
  }
  node.result_of_type(x, type);
}

void import_cast(const NodeReader& node) { cast_to(node, node.type_attribute("to", 0)); }
void import_cast_like(const NodeReader& node) { cast_to(node, node.type(1)); }

// The column `onnx` of the table of maps, and Mod, which is either of two
constexpr OperatorRow map_table[] = {
    {"Mod", 10, import_mod},
#define ONNX(...) __VA_OPT__(__VA_ARGS__, )
#define UNISONO_MAP(NAME, OPERANDS, TYPES, CPU, CUDA, REFERENCE, ROUNDINGS, ...) __VA_ARGS__
#define UNISONO_MAP_OTHER(NAME, OPERANDS, TYPES, REFERENCE, ROUNDINGS, ...) __VA_ARGS__
#include "unisono/network/maps.def"
#undef ONNX
};

}  // namespace

std::span<const OperatorRow> map_rows() { return map_table; }

}  // namespace unisono::network::onnx_import
