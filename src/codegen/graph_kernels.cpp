#include "codegen/graph_kernels.hpp"

#include <algorithm>

#include "codegen/graph_kernel_writer.hpp"
#include "codegen/names.hpp"
#include "codegen/reduction_text.hpp"

namespace unisono::codegen {

namespace {

// Reductions of one value over one domain, which one kernel computes; `by_state`: those alone that one state serves
std::vector<std::vector<ValueId>> joined_reductions(const Graph& g, bool by_state) {
  std::vector<std::vector<ValueId>> groups;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (!is_reduction(x.op)) continue;
    const auto same = [&](const std::vector<ValueId>& group) {
      const Node& y = g[group[0]];
      return y.inputs == x.inputs && y.attr.domain == x.attr.domain &&
             ((!by_state && !x.attr.domain.rows) || state_of(y.op) == state_of(x.op));
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end())
      groups.push_back({id});
    else
      found->push_back(id);
  }
  return groups;
}

// Whether there are reductions, and each makes one number of a row
bool reduces_rows(const Graph& g) {
  bool any = false;
  for (const Node& x : g.nodes) {
    if (!is_reduction(x.op)) continue;
    const ReduceDomain& d = x.attr.domain;
    if (d.rows || !d.cols || d.groups != 1) return false;
    any = true;
  }
  return any;
}

}  // namespace

plan::Expected<std::vector<GraphKernel>> graph_kernels(const Graph& g, const GraphStorage& storage) {
  if (!g.effects.empty()) return plan::because("calls that return nothing are in no kernel over a tensor");
  const Names names(g);
  std::vector<GraphKernel> kernels;
  std::optional<plan::Refusal> refusal;
  const auto add = [&](const auto& write) {
    KernelWriter writer(g, names, storage);
    kernels.push_back(write(writer));
    if (!refusal) refusal = writer.refusal();
  };
  if (reduces_rows(g)) {
    add([&](KernelWriter& w) { return w.rows(joined_reductions(g, true)); });
    if (refusal) return *std::move(refusal);
    return kernels;
  }
  for (const auto& group : joined_reductions(g, false))
    if (g[group[0]].attr.domain.rows)
      add([&](KernelWriter& w) { return w.partials(group); }), add([&](KernelWriter& w) { return w.join(group); });
    else
      add([&](KernelWriter& w) { return w.within_rows(group); });
  add([](KernelWriter& w) { return w.stores(); });
  if (refusal) return *std::move(refusal);
  return kernels;
}

}  // namespace unisono::codegen
