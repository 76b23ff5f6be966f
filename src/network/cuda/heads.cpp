/// A head (regions.hpp) as the kernels compute it, and what follows by itself instead.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "network/cuda/lowering.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

std::string own_name(const std::string& name) { return "head_" + name; }

// Names that the main graph cannot have taken
bool clashes(const Region& main, const Region& head) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(main.operands.begin(), main.operands.end(), [&](const auto& o) { return o.name == name; }) ||
           std::any_of(main.outputs.begin(), main.outputs.end(), [&](const auto& o) { return o.name == name; });
  };
  return std::any_of(head.operands.begin(), head.operands.end(),
                     [&](const RegionOperand& o) { return taken(own_name(o.name)); }) ||
         taken(own_name(head.outputs[0].name));
}

}  // namespace

HeadArguments Lowering::head_of(const Region& r, const Contraction& main) {
  const Region& h = p_.fused.regions[r.head->region];
  if (clashes(r, h)) throw Unsupported("the head's operands are called like the block's");
  const Operator& op = net().operators[h.operators[0]];
  const std::int64_t filters = sizes(op.output)[1], channels = sizes(op.inputs[0])[1];
  const Contraction contraction = plan::head_contraction(main, (filters + 7) / 8 * 8, p_.element);
  const auto& product = std::get<Conv2d>(contraction);
  HeadArguments all;
  all.head = {.channels = product.k, .graph = h.graph, .filter = "/filter", .only = r.head->only};
  for (Node& x : all.head.graph.nodes)
    if (x.op == Op::operand) x.attr.name = own_name(x.attr.name);
  for (Store& s : all.head.graph.stores) s.dtype = p_.element, s.name = own_name(s.name);
  all.operands.push_back({all.head.filter,
                          p_.constants.packed_filter(op.inputs[1], product, filters, channels, false, false),
                          p_.element, shape_b(contraction)});
  for (const RegionOperand& o : h.operands) {
    const Located at = operand(o, op, product.k);
    all.operands.push_back({own_name(o.name), at.place, at.type, {product.k}});
  }
  const Located to = located(r.head->to);
  all.result = {all.head.graph.stores[0].name, to.place, p_.element, shape_mn(contraction),
                pitched(shape_mn(contraction), to.pitch)};
  all.about = fmt::format(", stores head '{}' (1x1, {} -> {}) {}", net()[r.head->to].name, channels, filters,
                          r.head->only ? "alone" : "too");
  all.flop = 2.0 * static_cast<double>(element_count(sizes(op.output))) * static_cast<double>(channels);
  return all;
}

void Lowering::with_head(const Region& r) {
  std::string why;
  if (auto step = whole(r, Beside::head, why)) return add(std::move(step));
  kernels(r);
  const Region& h = p_.fused.regions[r.head->region];
  const std::size_t own_region = std::exchange(region_, r.head->region);
  const Operator* const own = std::exchange(op_, &net().operators[h.operators[0]]);
  name_ = net()[r.head->to].name;
  kernels(h);
  lowered_.steps.back()->how +=
      fmt::format(": not in the kernel that makes '{}': {}", net()[r.head->from].name, first_line(why));
  region_ = own_region, op_ = own;
}

}  // namespace unisono::network::gpu
