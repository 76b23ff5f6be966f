#include "network/cuda/decide/heads.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/head.hpp"

namespace unisono::network::gpu {

namespace {

std::string own_name(const std::string& name) { return "head_" + name; }

Argument head_filter(const PlanningInput& in, const Operator& op, const Contraction& contraction) {
  const std::int64_t filters = in.sizes(op.output)[1], channels = in.sizes(op.inputs[0])[1];
  return {"/filter",
          in.constants.packed_filter(op.inputs[1], std::get<Conv2d>(contraction), filters, channels, false, false),
          in.element, shape_b(contraction)};
}

// The head's graph with names of its own
Graph renamed(Graph graph, DType element) {
  for (Node& x : graph.nodes)
    if (x.op == Op::operand) x.attr.name = own_name(x.attr.name);
  for (Store& s : graph.stores) s.dtype = element, s.name = own_name(s.name);
  return graph;
}

}  // namespace

std::optional<Refusal> refuse_head_names(const PlanningInput& in, const Region& r) {
  const Region& head = in.region(r.head->region);
  const auto taken = [&](const std::string& name) {
    return std::any_of(r.operands.begin(), r.operands.end(), [&](const auto& o) { return o.name == name; }) ||
           std::any_of(r.outputs.begin(), r.outputs.end(), [&](const auto& o) { return o.name == name; });
  };
  const bool clashes = std::any_of(head.operands.begin(), head.operands.end(),
                                   [&](const RegionOperand& o) { return taken(own_name(o.name)); }) ||
                       taken(own_name(head.outputs[0].name));
  if (clashes) return because("the head's operands are called like those of the epilogue ahead of it");
  return std::nullopt;
}

HeadArguments head_of(const PlanningInput& in, const Region& r, const Contraction& main) {
  const Region& h = in.region(r.head->region);
  const Operator& op = in.first(h);
  const std::int64_t filters = in.sizes(op.output)[1], channels = in.sizes(op.inputs[0])[1];
  const Contraction contraction = plan::head_contraction(main, (filters + 7) / 8 * 8, in.element);
  const std::int64_t padded = std::get<Conv2d>(contraction).k;
  HeadArguments all;
  all.operands.push_back(head_filter(in, op, contraction));
  all.head = {
      .channels = padded, .graph = renamed(h.graph, in.element), .filter = all.operands[0].name, .only = r.head->only};
  for (const RegionOperand& o : h.operands) {  // constants: fold_heads()
    const PitchedTensor at = *operand_tensor(in, o, op, padded);
    all.operands.push_back({own_name(o.name), at.at, at.type, {padded}});
  }
  const PitchedTensor to = in.tensor(r.head->to);
  all.result = {all.head.graph.stores[0].name, to.at, in.element, shape_mn(contraction),
                pitched(shape_mn(contraction), to.pitch)};
  all.about = fmt::format(", stores head '{}' (1x1, {} -> {}) {}", in.name(r.head->to), channels, filters,
                          r.head->only ? "alone" : "too");
  all.flop = 2.0 * static_cast<double>(element_count(in.sizes(op.output))) * static_cast<double>(channels);
  return all;
}

}  // namespace unisono::network::gpu
