#include "gradients/recurrent_layer.hpp"

#include <cstddef>
#include <span>

#include "gradients/values.hpp"

namespace unisono::autodiff {

NetworkValue chosen(NetworkValue condition, NetworkValue a, NetworkValue b) {
  return mapped(MapOp::select, {condition, a, b});
}
NetworkValue step_at(NetworkValue x, std::int64_t i) { return range_of(x, 0, i, i + 1); }
NetworkValue joined_steps(const std::vector<NetworkValue>& steps) {
  return steps.size() == 1 ? steps[0] : concat(steps, 0);
}

RecurrentLayer::RecurrentLayer(const operators::Recurrence& how, const Use& use)
    : how_(how), net_(use.net), in_(use.in) {
  const Extents64 x = extents_of(in_[0]), w = extents_of(in_[1]);
  steps = x[0], rows = x[1], directions = w[0], hidden = w[1];
  std::size_t next = 2;
  for (auto [given, at] :
       {std::pair{how.has_extra, &extra}, {how.has_lengths, &lengths}, {how.has_h, &h}, {how.has_c, &c}})
    if (given) *at = next++;
  if (lengths != 0) active = active_steps();
}

NetworkValue RecurrentLayer::apart(NetworkValue x) const {
  const Extents64 shape = extents_of(x);
  return transpose(shaped(x, {shape[0], rows, directions, shape[2] / directions}), {0, 2, 1, 3});
}

NetworkValue RecurrentLayer::together(NetworkValue x) const {
  const Extents64 shape = extents_of(x);
  return shaped(transpose(x, {0, 2, 1, 3}), {shape[0], rows, directions * shape[3]});
}

NetworkValue RecurrentLayer::in_order(NetworkValue x) const {
  const auto of = [&](NetworkValue part, bool reverse) { return reverse ? reversed(part, 0) : part; };
  if (directions == 1) return of(x, how_.reverse);
  return concat({of(range_of(x, 1, 0, 1), how_.reverse), of(range_of(x, 1, 1, 2), true)}, 1);
}

NetworkValue RecurrentLayer::initial(std::size_t input) const {
  if (input == 0) return zeros(net_, {1, directions, rows, hidden});
  return apart(shaped(in_[input], {1, rows, directions * hidden}));
}

NetworkValue RecurrentLayer::before(NetworkValue first, NetworkValue states) const {
  if (steps == 1) return first;
  NetworkValue others = range_of(states, 0, 0, steps - 1);
  if (active) others = chosen(range_of(*active, 0, 0, steps - 1), others, first);  // a reversed sequence begins late
  return concat({first, others}, 0);
}

NetworkValue RecurrentLayer::part(NetworkValue x, std::int64_t i, std::int64_t count) const {
  return range_of(x, 3, i * hidden, (i + count) * hidden);
}

NetworkValue RecurrentLayer::extra_part(std::int64_t i) const {
  const NetworkValue x = in_[extra];
  return part(shaped(x, {1, directions, 1, extents_of(x)[1]}), i);
}

NetworkValue RecurrentLayer::when_active(NetworkValue x, double otherwise) const {
  return active ? chosen(*active, x, net_.constant(otherwise)) : x;
}

Gate RecurrentLayer::gate(std::size_t f, NetworkValue x, bool clips) const {
  const auto each = static_cast<std::size_t>(functions_of(how_.cell));
  const double clip = clips ? how_.clip : 0;
  if (directions == 1 || how_.functions[f] == how_.functions[each + f]) return gate_of(how_.functions[f], x, clip);
  const Gate first = gate_of(how_.functions[f], range_of(x, 1, 0, 1), clip),
             second = gate_of(how_.functions[each + f], range_of(x, 1, 1, 2), clip);
  return {concat({first.value, second.value}, 1), concat({first.slope, second.slope}, 1)};
}

NetworkValue RecurrentLayer::stacked(const std::vector<std::optional<NetworkValue>>& factors) const {
  std::vector<NetworkValue> all;
  for (const auto& factor : factors) {
    const NetworkValue x = factor ? when_active(*factor, 0) : zeros(net_, {steps, directions, rows, hidden});
    all.push_back(shaped(x, {steps, directions, rows, 1, hidden}));
  }
  return all.size() == 1 ? all[0] : concat(all, 3);
}

NetworkValue RecurrentLayer::spread(NetworkValue gradient, NetworkValue factors) const {
  const std::int64_t count = extents_of(gradient)[0], many = extents_of(factors)[3];
  const NetworkValue all = shaped(gradient, {count, directions, rows, 1, hidden}) * factors;
  return shaped(all, {count, directions, rows, many * hidden});
}

NetworkValue RecurrentLayer::as_matrices(NetworkValue x) const {
  return shaped(transpose(x, {1, 0, 2, 3}), {directions, steps * rows, extents_of(x)[3]});
}

NetworkValue RecurrentLayer::active_steps() const {
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < steps; ++i)
    for (std::int64_t d = 0; d < directions; ++d)
      places.push_back(static_cast<std::int32_t>(how_.reverse || d == 1 ? steps - 1 - i : i));
  const auto bytes = std::as_bytes(std::span(places));
  const NetworkValue place =
      net_.constant("steps", {Dim(steps), Dim(directions), Dim(1), Dim(1)}, DType::i32, {bytes.begin(), bytes.end()});
  return mapped(MapOp::less, {place, shaped(in_[lengths], {1, 1, rows, 1})});
}

}  // namespace unisono::autodiff
