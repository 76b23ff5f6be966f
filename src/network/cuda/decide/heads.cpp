#include "network/cuda/decide/heads.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/store_forms.hpp"

namespace unisono::network::gpu {

namespace {

std::string own_name(const std::string& name) { return "head_" + name; }

bool is_taken(const Region& r, const std::string& name) {
  const auto has_it = [&](const auto& x) { return x.name == name; };
  return std::ranges::any_of(r.operands, has_it) || std::ranges::any_of(r.outputs, has_it);
}

// A name that neither the region nor its head has
std::string filter_name(const Region& r, const Region& head) {
  std::string name = "filter";
  while (is_taken(r, own_name(name)) || is_taken(head, name)) name += '_';
  return own_name(name);
}

Argument head_filter(const PlanningInput& in, const std::string& name, const Operator& op,
                     const Contraction& contraction) {
  const std::int64_t filters = in.sizes(op.output)[1], channels = in.sizes(op.inputs[0])[1];
  return {name,
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
  const bool clashes =
      std::ranges::any_of(head.operands, [&](const RegionOperand& o) { return is_taken(r, own_name(o.name)); }) ||
      is_taken(r, own_name(head.outputs[0].name));
  if (clashes) return because("the head's operands are called like those of the epilogue ahead of it");
  return std::nullopt;
}

HeadArguments head_of(const PlanningInput& in, const Region& r, const Contraction& main) {
  const Region& h = in.region(r.head->region);
  const Operator& op = in.first(h);
  const std::int64_t filters = in.sizes(op.output)[1], channels = in.sizes(op.inputs[0])[1];
  const Contraction contraction = ir::head_contraction(main, in.fused.style.pitch(filters), in.element);
  const std::int64_t padded = std::get<Conv2d>(contraction).k;
  HeadArguments all;
  all.operands.push_back(head_filter(in, filter_name(r, h), op, contraction));
  all.head = std::make_shared<const Head>(
      Head{.channels = padded, .filter = all.operands[0].name, .graph = renamed(h.graph, in.element)});
  all.only = r.head->only;
  for (const RegionOperand& o : h.operands) {  // constants: fold_heads()
    const PitchedTensor at = *operand_tensor(in, o, op, padded);
    all.operands.push_back({own_name(o.name), at.at, at.type, {padded}});
  }
  const PitchedTensor to = in.element_tensor(r.head->to);
  all.result = {all.head->graph.stores[0].name, to.at, in.element, shape_mn(contraction),
                pitched(shape_mn(contraction), to.pitch)};
  all.about = fmt::format(", stores head '{}' (1x1, {} -> {}) {}", in.name(r.head->to), channels, filters,
                          r.head->only ? "alone" : "too");
  all.flop = 2.0 * static_cast<double>(element_count(in.sizes(op.output))) * static_cast<double>(channels);
  return all;
}

}  // namespace unisono::network::gpu
