#include "plan/reads.hpp"

#include "ir/products.hpp"

namespace unisono::plan {

void Reads::add(const Reads& more) {
  columns.insert(more.columns.begin(), more.columns.end());
  rows.insert(more.rows.begin(), more.rows.end());
  tensors.insert(more.tensors.begin(), more.tensors.end());
  accumulator |= more.accumulator, result |= more.result, raw |= more.raw;
}

ElementReads Reads::listed() const {
  return {.columns = {columns.begin(), columns.end()},
          .tensors = {tensors.begin(), tensors.end()},
          .rows = {rows.begin(), rows.end()}};
}

Reads Reader::read(ValueId root, bool behind) const {
  Reads reads;
  std::vector<ValueId> pending{root};
  std::set<ValueId> seen;
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (!seen.insert(id).second) continue;
    if (leaf(id, behind, reads)) continue;
    for (const ValueId in : g_[id].inputs) pending.push_back(in);
  }
  return reads;
}

bool Reader::leaf(ValueId id, bool behind, Reads& reads) const {
  const Node& x = g_[id];
  if (behind && id == behind_) return reads.result = true;
  if (behind && norm_ && id == norm_->input) return reads.raw = true;
  if (ir::is_accumulator(x.op)) return reads.accumulator = true;
  if (x.axes == axes::scalar && !statistical_[id]) return true;
  const bool of_row = x.axes.row == RowAxis::m && x.axes.col == ColAxis::none;
  if (!(x.axes == axes::mn)) return (of_row ? reads.rows : reads.columns).insert(id), true;
  if (x.op == Op::operand) return reads.tensors.insert(id), true;
  return false;
}

}  // namespace unisono::plan
