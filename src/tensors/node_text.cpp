#include "tensors/node_text.hpp"

#include <fmt/format.h>

#include <vector>

#include "codegen/expression.hpp"
#include "tensors/text.hpp"
#include "unisono/error.hpp"
#include "unisono/graph.hpp"

namespace unisono::tensors {

namespace {

// The columns `types` and `cuda` of the table of maps
enum class Types : std::uint8_t { numbers, floats, integers, comparison, equality, truth };
struct MapRow {
  const char* name;
  std::size_t operands;
  Types types;
  const char* text;  // null: has none of its own
};
constexpr MapRow map_rows[] = {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, CPU, CUDA, ...) {#NAME, OPERANDS, Types::TYPES, CUDA},
#define UNISONO_MAP_OTHER(NAME, OPERANDS, ...) {#NAME, OPERANDS, Types::numbers, nullptr},
#include "unisono/network/maps.def"
};

[[noreturn]] void no_such(const char* name, DType t) {
  throw InternalError(fmt::format("no kernel computes {} of {}", name, to_string(t)));
}

bool accepts(Types types, DType t) {
  if (t == DType::boolean) return types == Types::truth || types == Types::equality;
  if (types == Types::truth || t == DType::f16 || t == DType::bf16) return false;
  return types == Types::floats ? is_float(t) : types != Types::integers || !is_float(t);
}

NodeText written(const operators::Map& map, std::span<const NodeValue* const> x) {
  const MapRow& row = map_rows[static_cast<std::size_t>(map.op)];
  if (x.size() != row.operands) throw InternalError(fmt::format("{} of {} operands", row.name, x.size()));
  if (map.op == MapOp::cast) return {fmt::format("converted<{}>({})", tag_of(map.to), x[0]->name), map.to};
  if (map.op == MapOp::select) {
    if (x[0]->type != DType::boolean || x[1]->type != x[2]->type) no_such(row.name, x[0]->type);
    return {fmt::format("{} ? {} : {}", x[0]->name, x[1]->name, x[2]->name), x[1]->type};
  }
  const DType t = x[0]->type;
  if (!accepts(row.types, t) || x.back()->type != t) no_such(row.name, t);
  const std::string_view form = row.text;
  return {fmt::format(fmt::runtime(form), fmt::arg("x", x[0]->name), fmt::arg("y", x.back()->name)),
          row.types == Types::comparison || row.types == Types::equality ? DType::boolean : t,
          !is_float(t) && form.find("faults") != form.npos};
}

// As epilogues write it: a graph of this one node
NodeText written(const operators::Elementwise& e, std::span<const NodeValue* const> x) {
  Graph g;
  Node node{.op = e.op, .dtype = DType::f32, .axes = {}, .inputs = {}, .attr = e.attr, .name = {}};
  std::vector<std::string> names;
  for (const NodeValue* v : x) {
    if (v->type != DType::f32) no_such("an elementwise operation", v->type);
    node.inputs.push_back(static_cast<ValueId>(g.nodes.size()));
    g.nodes.push_back({.op = Op::operand, .dtype = DType::f32, .axes = {}, .inputs = {}, .attr = {}, .name = {}});
    names.push_back(v->name);
  }
  g.nodes.push_back(std::move(node));
  return {codegen::expression(g, static_cast<ValueId>(g.nodes.size() - 1), names, true), DType::f32};
}

}  // namespace

NodeText node_text(const NodeOperation& op, std::span<const NodeValue* const> operands) {
  return std::visit([&](const auto& of) { return written(of, operands); }, op);
}

}  // namespace unisono::tensors
