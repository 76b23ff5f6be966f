#include "codegen/image_values.hpp"

#include <algorithm>

#include "ir/op_table.hpp"

namespace unisono::codegen {

namespace {

bool is_leaf(const Node& x) { return x.op == Op::acc || x.op == Op::operand || ir::is_reduction(x.op); }

}  // namespace

std::vector<ValueId> values_of_images(const Graph& g) {
  constexpr std::size_t most = 6;
  // Results of a reduction within rows are stored by row, even if the value that was reduced is the same in all of them
  std::vector<bool> by_row(g.nodes.size());
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    const auto inputs_by_row = [&] {
      return std::any_of(x.inputs.begin(), x.inputs.end(), [&](ValueId input) { return by_row[input]; });
    };
    by_row[id] = ir::is_reduction(x.op) ? reduced_axes(x.attr.domain).row == RowAxis::m
                                        : x.axes.row == RowAxis::m || inputs_by_row();
  }
  const auto fixed = [&](ValueId id) { return !by_row[id]; };
  std::vector<bool> needed(g.nodes.size());
  std::vector<ValueId> values;
  const auto need = [&](ValueId id) {
    if (!fixed(id)) {
      needed[id] = true;
    } else if (g[id].op != Op::constant && g[id].dtype == DType::f32 && values.size() < most &&
               std::find(values.begin(), values.end(), id) == values.end()) {
      values.push_back(id);
    }
  };
  for (const Store& s : g.stores) need(s.value);
  for (ValueId id = static_cast<ValueId>(g.nodes.size()); id-- > 0;)
    if (needed[id] && !is_leaf(g[id]))
      for (const ValueId input : g[id].inputs) need(input);
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace unisono::codegen
