#include "runtime/cpu/emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/op_table.hpp"
#include "ir/products.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

bool is_leaf(const Node& x) { return ir::info(x.op).op_class == ir::OpClass::leaf; }

}  // namespace

Instruction instruction(Kind kind, int result, std::vector<int> source) {
  Instruction i;
  i.kind = kind;
  i.result = result;
  i.source = std::move(source);
  return i;
}

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.nodes.size(), 0);
  for (const Node& x : graph.nodes)
    for (const ValueId in : x.inputs) ++uses[in];
  for (const Store& s : graph.stores) ++uses[s.value];
  for (const ValueId e : graph.effects) ++uses[e];
  return uses;
}

Emitter::Emitter(Plan& plan, Program& program, bool tiles, std::vector<Fill>* fills)
    : g_(plan.graph), plan_(plan), program_(program), tiles_(tiles), fills_(fills) {}

LaneShape Emitter::shape_of(const Axes& a) const {
  const std::int64_t cols = a.col == ColAxis::n ? plan_.extents.cols : a.col == ColAxis::g ? a.groups : 1;
  if (a.row == RowAxis::m) return {LaneShape::block, cols};
  return {a.row == RowAxis::b ? plan_.extents.images : 1, cols};
}

int Emitter::add_register(Register r) {
  program_.registers.push_back(r);
  return static_cast<int>(program_.registers.size()) - 1;
}

int Emitter::result_register(ValueId v) {
  Register r;
  r.shape = shape_of(g_[v].axes);
  r.wide = is_wide(g_[v].dtype);
  if (const auto placed = placed_.find(v); placed != placed_.end()) r = placed->second;
  if (!tiles_) {
    r.home = Home::uniform;
    r.offset = plan_.slots[static_cast<std::size_t>(plan_.slot_of_value[v])].offset;
  }
  const int reg = add_register(r);
  native_[v] = reg;
  return reg;
}

int Emitter::constant(double value, bool wide) {
  if (!wide) value = static_cast<double>(static_cast<float>(value));
  const auto key = std::pair{value, wide};
  if (const auto found = constants_.find(key); found != constants_.end() && !std::isnan(value)) return found->second;
  const std::size_t at = program_.constants.size();
  program_.constants.resize(at + scalar_lanes);
  for (std::size_t i = 0; i < scalar_lanes; ++i) {
    const auto narrow = static_cast<float>(value);
    if (wide)
      program_.constants[at + i] = value;
    else
      std::memcpy(reinterpret_cast<char*>(&program_.constants[at]) + i * sizeof narrow, &narrow, sizeof narrow);
  }
  const int reg = add_register({.shape = {}, .wide = wide, .home = Home::constant, .offset = at * sizeof(double)});
  if (!std::isnan(value) && value != 0) constants_[key] = reg;  // 0 and -0 compare equal
  return reg;
}

// A value without m: in its array in a uniform program; a scalar, or repeated over the block's rows, in a tile program
int Emitter::uniform_value(ValueId v) {
  return native_[v] = repeated_value(v, std::max<std::int64_t>(1, shape_of(g_[v].axes).cols));
}

// The same with `cols` columns
int Emitter::repeated_value(ValueId v, std::int64_t cols) {
  const int index = plan_.slot_of_value[v];
  if (index < 0) throw InternalError(fmt::format("value {} has no memory", v));
  const UniformSlot& slot = plan_.slots[static_cast<std::size_t>(index)];
  if (!tiles_ || slot.shape.scalar())
    return add_register({.shape = slot.shape, .wide = slot.wide, .home = Home::uniform, .offset = slot.offset});
  const auto key = std::pair{v, slot.shape.cols == 1 ? 1 : cols};
  if (const auto found = repeated_.find(key); found != repeated_.end()) return found->second;
  const LaneShape shape{key.second == 1 ? 1 : LaneShape::block, key.second};
  const int reg = add_register({.shape = shape, .wide = slot.wide, .home = Home::replicated});
  fills_->push_back({index, reg});
  return repeated_[key] = reg;
}

int Emitter::leaf(ValueId v) {
  const Node& x = g_[v];
  if (x.axes.row != RowAxis::m) return uniform_value(v);
  if (ir::is_accumulator(x.op))
    return native_[v] =
               add_register({.shape = shape_of(x.axes), .home = Home::accumulator, .index = x.op == Op::acc1 ? 1 : 0});
  Register r{.shape = shape_of(x.axes), .wide = is_wide(x.dtype)};
  Instruction load = instruction(Kind::load, 0, {});
  if (x.op == Op::operand) {
    for (std::size_t i = 0; i < plan_.operands.size(); ++i)
      if (plan_.operands[i].name == x.attr.name) load.index = static_cast<int>(i);
    r.home = Home::operand;
    r.index = load.index;
  } else {
    load.kind = Kind::coordinate;
    load.coordinate = x.attr.coordinate;
  }
  load.result = add_register(r);
  emit(load);
  return native_[v] = load.result;
}

int Emitter::native(ValueId v) {
  if (const auto found = native_.find(v); found != native_.end()) return found->second;
  const Node& x = g_[v];
  if (is_leaf(x)) return leaf(v);
  if (x.axes.row != RowAxis::m) return uniform_value(v);
  throw InternalError(fmt::format("value {} ({}) is read before it is computed", v, to_string(x.op)));
}

int Emitter::widened(int reg) {
  if (const auto found = widened_.find(reg); found != widened_.end()) return found->second;
  const int result = add_register({.shape = program_.registers[static_cast<std::size_t>(reg)].shape, .wide = true});
  emit(instruction(Kind::widen, result, {reg}));
  return widened_[reg] = result;
}

int Emitter::narrowed(int reg) {
  if (const auto found = narrowed_.find(reg); found != narrowed_.end()) return found->second;
  const int result = add_register({.shape = program_.registers[static_cast<std::size_t>(reg)].shape});
  emit(instruction(Kind::narrow, result, {reg}));
  return narrowed_[reg] = result;
}

int Emitter::spread(int reg, LaneShape shape) {
  const Register from = program_.registers[static_cast<std::size_t>(reg)];
  if (from.shape == shape || from.shape.scalar()) return reg;
  const auto key = std::tuple{reg, shape.rows, shape.cols};
  if (const auto found = spread_.find(key); found != spread_.end()) return found->second;
  const int result = add_register({.shape = shape, .wide = from.wide});
  emit(instruction(Kind::expand, result, {reg}));
  return spread_[key] = result;
}

int Emitter::get(ValueId v, LaneShape shape, bool wide) {
  const Node& x = g_[v];
  if (x.op == Op::constant) return constant(x.attr.value, wide);
  const bool uniform = tiles_ && x.axes.row != RowAxis::m;
  int reg = uniform ? repeated_value(v, shape.cols) : native(v);
  const bool is = program_.registers[static_cast<std::size_t>(reg)].wide;
  if (wide && !is) reg = widened(reg);
  if (!wide && is) reg = narrowed(reg);
  return spread(reg, shape);
}

}  // namespace unisono::cpu
