#include "codegen/halving.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::codegen {

namespace {

bool is_element(const Node& x) { return x.axes == axes::mn; }
bool takes_tanh(const Node& x) { return x.op == Op::silu || x.op == Op::sigmoid; }

bool is_stored(const Graph& g, ValueId id) {
  return std::any_of(g.stores.begin(), g.stores.end(), [id](const Store& s) { return s.value == id; });
}

}  // namespace

Halving::Halving(const plan::Epilogue& epilogue) : g_(&epilogue.graph) {
  for (ValueId id = 0; id < g_->nodes.size(); ++id) {
    if (!feeds_tanh_only(id)) continue;
    const bool normalised = epilogue.norm() && id == epilogue.norm()->result;
    const bool raw = epilogue.norm() && id == epilogue.norm()->input;  // its statistics are of the value itself
    if (normalised || (!raw && consider(id))) halved_.insert(id);
  }
}

bool Halving::feeds_tanh_only(ValueId id) const {
  const Node& x = (*g_)[id];
  if (!is_element(x) || x.dtype != DType::f32 || is_stored(*g_, id)) return false;
  bool any = false;
  for (const Node& user : g_->nodes) {
    if (std::find(user.inputs.begin(), user.inputs.end(), id) == user.inputs.end()) continue;
    if (!takes_tanh(user)) return false;
    any = true;
  }
  return any;
}

// A column that one node reads, once
bool Halving::is_own_column(ValueId id) const {
  const Node& x = (*g_)[id];
  if (is_element(x) || x.axes == axes::scalar || x.dtype != DType::f32 || is_stored(*g_, id)) return false;
  std::ptrdiff_t uses = 0;
  for (const Node& user : g_->nodes) uses += std::count(user.inputs.begin(), user.inputs.end(), id);
  return uses == 1;
}

// element + column, or element·column + column
bool Halving::consider(ValueId id) {
  const Node& x = (*g_)[id];
  if (x.op != Op::add && x.op != Op::fma) return false;
  const bool element_first = is_element((*g_)[x.inputs[0]]);
  const ValueId element = x.inputs[element_first ? 0 : 1], column = x.inputs[element_first ? 1 : 0];
  if (!is_element((*g_)[element]) || (*g_)[element].dtype != DType::f32 || !is_own_column(column)) return false;
  if (x.op == Op::fma && !is_own_column(x.inputs[2])) return false;
  halved_.insert(column);
  if (x.op == Op::fma) halved_.insert(x.inputs[2]);
  return true;
}

std::string Halving::expression(ValueId id, std::span<const std::string> inputs) const {
  if (g_ == nullptr) return "";
  const Node& x = (*g_)[id];
  if (takes_tanh(x) && halves(x.inputs[0])) return fmt::format("math::{}_of_half({})", to_string(x.op), inputs[0]);
  if (!is_element(x) || !halves(id)) return "";
  if (x.op == Op::fma) return fmt::format("math::fma({}, {}, {})", inputs[0], inputs[1], inputs[2]);
  const bool element_first = is_element((*g_)[x.inputs[0]]);
  return fmt::format("math::fma({}, 0.5f, {})", inputs[element_first ? 0 : 1], inputs[element_first ? 1 : 0]);
}

}  // namespace unisono::codegen
