/// Element types of results.

#include <fmt/format.h>

#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {

namespace {

bool computes(DType t) { return t == DType::f32 || t == DType::f64 || (!is_float(t) && t != DType::boolean); }

struct TypeOf {
  std::span<const NetworkTensor* const> inputs;
  const std::string& where;

  DType type(std::size_t i) const { return inputs[i]->dtype; }
  [[noreturn]] void refuse(std::size_t i, std::string_view expected) const {
    throw UserError(fmt::format("{}: input '{}' has elements of {}; expected {}", where, inputs[i]->name,
                                to_string(type(i)), expected));
  }
  // All of one type
  DType common(std::size_t first = 0) const {
    for (std::size_t i = first + 1; i < inputs.size(); ++i)
      if (type(i) != type(first)) refuse(i, fmt::format("{} as of '{}'", to_string(type(first)), inputs[first]->name));
    return inputs.empty() ? DType::f32 : type(first);
  }

  DType operator()(const operators::Map& m) const;
  DType operator()(const operators::Reduce& r) const {
    const bool exact = r.op == ReduceOp::max || r.op == ReduceOp::min;
    if (type(0) == DType::boolean ? !exact : !computes(type(0))) refuse(0, "numbers");
    const bool whole = exact || r.op == ReduceOp::sum || r.op == ReduceOp::prod || r.op == ReduceOp::sum_square;
    if (!is_float(type(0)) && !whole) refuse(0, "f32 or f64");
    return type(0);
  }
  DType operator()(const operators::ArgReduce&) const {
    if (!computes(type(0))) refuse(0, "numbers");
    return DType::i64;
  }
  DType operator()(const operators::Gather&) const { return (indices(), type(0)); }
  DType operator()(const operators::GatherElements&) const { return (indices(), type(0)); }
  DType operator()(const operators::GatherND&) const { return (indices(), type(0)); }
  DType operator()(const operators::ScatterElements& s) const { return scattered(s.reduction); }
  DType operator()(const operators::ScatterND& s) const { return scattered(s.reduction); }
  DType operator()(const operators::Range&) const { return DType::i64; }
  DType operator()(const operators::Triangle&) const { return type(0); }
  DType operator()(const operators::CumulativeSum&) const {
    if (!computes(type(0))) refuse(0, "numbers");
    return type(0);
  }
  DType operator()(const operators::TopK&) const {
    if (!computes(type(0))) refuse(0, "numbers");
    return DType::i64;
  }
  DType operator()(const operators::MatMul&) const {
    const DType t = common();
    if (t != DType::f32 && t != DType::f64 && size_of(t) < 4) refuse(0, "f32, f64 or integers of 32 or 64 bits");
    return t;
  }
  DType operator()(const operators::GridSample&) const {
    for (const std::size_t i : {0, 1})
      if (type(i) != DType::f32 && type(i) != DType::f64) refuse(i, "f32 or f64");
    return type(0);
  }
  DType operator()(const operators::Recurrence& r) const {
    if (type(0) != DType::f32 && type(0) != DType::f64) refuse(0, "f32 or f64");
    const std::size_t lengths = r.has_lengths ? (r.has_extra ? 3 : 2) : inputs.size();
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (i == lengths ? type(i) == DType::i32 : type(i) == type(0)) continue;
      refuse(i, i == lengths ? "i32" : fmt::format("{} as of '{}'", to_string(type(0)), inputs[0]->name));
    }
    return type(0);
  }
  DType operator()(const operators::ShapeOf&) const { return DType::i64; }
  DType operator()(const operators::PoolNd& p) const { return (floats(), p.indices ? DType::i64 : DType::f32); }
  // movement
  DType operator()(const operators::Concat&) const { return common(); }
  DType operator()(const operators::Slice&) const { return type(0); }
  DType operator()(const operators::Tile&) const { return type(0); }
  DType operator()(const operators::DepthToSpace&) const { return type(0); }
  DType operator()(const operators::ReshapeLike&) const { return type(0); }
  DType operator()(const operators::Pad&) const { return type(0); }
  DType operator()(const operators::Reshape&) const { return type(0); }
  DType operator()(const operators::PixelReshape&) const { return type(0); }
  DType operator()(const operators::Flatten&) const { return type(0); }
  DType operator()(const operators::Transpose&) const { return type(0); }
  DType operator()(const operators::Expand&) const { return type(0); }
  DType operator()(const operators::Identity&) const { return type(0); }
  // all others compute in f32
  DType operator()(const auto&) const { return floats(); }

  void indices() const {
    if (type(1) != DType::i32 && type(1) != DType::i64) refuse(1, "i32 or i64");
  }
  DType scattered(ScatterReduction reduction) const {
    indices();
    if (reduction != ScatterReduction::none && !computes(type(0))) refuse(0, "numbers");
    if (type(2) != type(0)) refuse(2, fmt::format("{} as of '{}'", to_string(type(0)), inputs[0]->name));
    return type(0);
  }
  DType floats() const {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (type(i) != DType::f32) refuse(i, "f32");
    return DType::f32;
  }
};

// The column `types` of the table of maps
enum class MapTypes : std::uint8_t { numbers, floats, integers, comparison, equality, truth, choice, conversion };

constexpr MapTypes map_types[] = {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, ...) MapTypes::TYPES,
#define UNISONO_MAP_OTHER(NAME, OPERANDS, TYPES, ...) MapTypes::TYPES,
#include "unisono/network/maps.def"
};

DType TypeOf::operator()(const operators::Map& m) const {
  const MapTypes types = map_types[static_cast<std::size_t>(m.op)];
  if (types == MapTypes::conversion) return m.to;
  if (types == MapTypes::truth) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (type(i) != DType::boolean) refuse(i, "bool");
    return DType::boolean;
  }
  if (types == MapTypes::choice) {
    if (type(0) != DType::boolean) refuse(0, "bool");
    return common(1);
  }
  const DType t = common();
  if (types == MapTypes::equality && t == DType::boolean) return t;
  if (!computes(t)) refuse(0, "numbers");
  if (!is_float(t) && types == MapTypes::floats) refuse(0, "f32 or f64");
  if (is_float(t) && types == MapTypes::integers) refuse(0, "integers");
  return types == MapTypes::comparison || types == MapTypes::equality ? DType::boolean : t;
}

}  // namespace

DType infer_dtype(const OperatorKind& kind, std::span<const NetworkTensor* const> inputs, const std::string& where) {
  return std::visit(TypeOf{inputs, where}, kind);
}

}  // namespace unisono
