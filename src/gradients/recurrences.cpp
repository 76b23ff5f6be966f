/// Recurrent layers. The gates of all steps are computed again at once, from the states that the forward pass returned,
/// and with them what a step's gradients are multiplied by; then one step after the other leads back.

#include "gradients/recurrent_layer.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

using operators::Recurrence;

NetworkValue multiplied(NetworkValue a, NetworkValue b) { return a.builder().apply(operators::MatMul{}, {a, b}); }

class RecurrentBackward {
 public:
  RecurrentBackward(const Recurrence& how, const Use& use)
      : how_(how), use_(use), layer_(how, use), x_(layer_.in_order(layer_.apart(use.in[0]))), w_(use.in[1]) {
    const int states = states_of(how.cell);
    const auto of_steps = [&](NetworkValue all) {
      return layer_.in_order(layer_.apart(range_of(all, 0, states, states + layer_.steps)));
    };
    gradient_ = layer_.when_active(of_steps(use.gradient), 0);
    h_ = layer_.apart(step_at(use.gradient, 0));
    if (states == 2) c_ = layer_.apart(step_at(use.gradient, 1));
    before_ = layer_.before(layer_.initial(layer_.h), of_steps(use.out));
    states_ = multiplied(*before_, w_);
  }

  InputGradients result() {
    switch (how_.cell) {
      case RecurrentCell::rnn: rnn(); break;
      case RecurrentCell::gru: how_.linear_before_reset ? linear_gru() : gru(); break;
      case RecurrentCell::lstm: lstm(); break;
    }
    return std::move(result_);
  }

 private:
  NetworkValue sum_of(std::int64_t gate) const { return layer_.part(x_, gate) + layer_.part(*states_, gate); }
  NetworkValue summed(NetworkValue x) const { return reduced(ReduceOp::sum, x, {0, 2}, false); }  // (D,·)

  // What a step's gradients are multiplied by
  struct Factors {
    NetworkValue gates;                      // the state's, for those of the gates' sums (T,D,N,G,H)
    std::optional<NetworkValue> carry = {};  // for that of the state before, beside what passes through the gates
    // of an LSTM's cell: from the state's gradient to the cell's, from that to the gates' and to the cell before
    std::optional<NetworkValue> to_cell = {}, cell_gates = {}, cell_carry = {};
  };

  // From the last step to the first; the gradients of the sums with the states (T,D,N,G·H)
  NetworkValue lead_back(const Factors& f) {
    const NetworkValue back = transposed(w_);
    std::vector<NetworkValue> all;
    for (std::int64_t i = layer_.steps; i-- > 0;) {
      const NetworkValue h = *h_ + step_at(*gradient_, i);
      NetworkValue gates = layer_.spread(h, step_at(f.gates, i));
      if (f.to_cell) {
        const NetworkValue c = *c_ + h * step_at(*f.to_cell, i);
        gates = gates + layer_.spread(c, step_at(*f.cell_gates, i));
        c_ = c * step_at(*f.cell_carry, i);
      }
      h_ = multiplied(gates, back);
      if (f.carry) h_ = *h_ + h * step_at(*f.carry, i);
      all.push_back(gates), of_states_.push_back(h);
    }
    return joined(all);
  }
  static NetworkValue joined(const std::vector<NetworkValue>& backward) {
    return joined_steps({backward.rbegin(), backward.rend()});
  }
  // Where a row does not take a step, its state stays
  std::optional<NetworkValue> stays() const {
    if (!layer_.active) return std::nullopt;
    return chosen(*layer_.active, use_.net.constant(0.0), use_.net.constant(1.0));
  }
  NetworkValue weights_of(NetworkValue states, NetworkValue gates) const {
    return multiplied(transposed(layer_.as_matrices(states)), layer_.as_matrices(gates));
  }

  void give(NetworkValue of_input, std::optional<NetworkValue> weights, std::optional<NetworkValue> extra = {}) {
    result_.resize(use_.in.size());
    result_[0] = layer_.together(layer_.in_order(of_input));
    if (use_.wanted[1]) result_[1] = weights;
    if (layer_.extra != 0) result_[layer_.extra] = extra;
    const auto initial = [&](NetworkValue x) {
      return shaped(layer_.together(x), {layer_.rows, layer_.directions * layer_.hidden});
    };
    if (layer_.h != 0) result_[layer_.h] = initial(*h_);
    if (layer_.c != 0) result_[layer_.c] = initial(*c_);
  }

  void rnn() {
    const NetworkValue gates =
        lead_back({.gates = layer_.stacked({layer_.gate(0, sum_of(0)).slope}), .carry = stays()});
    give(gates, weights_of(*before_, gates));
  }

  // h = (1 − z)·n + z·before, n = f(x + r·(before·W + extra))
  void linear_gru() {
    const Gate z = layer_.gate(0, sum_of(0)), r = layer_.gate(0, sum_of(1));
    NetworkValue inner = layer_.part(*states_, 2);
    if (layer_.extra != 0) inner = inner + layer_.extra_part(0);
    const Gate n = layer_.gate(1, layer_.part(x_, 2) + r.value * inner);
    const NetworkValue of_z = (*before_ - n.value) * z.slope, of_n = (1.0 - z.value) * n.slope,
                       of_r = of_n * inner * r.slope;
    const NetworkValue gates =
        lead_back({.gates = layer_.stacked({of_z, of_r, of_n * r.value}), .carry = layer_.when_active(z.value, 1)});
    const NetworkValue own = layer_.spread(joined(of_states_), layer_.stacked({of_n}));
    std::optional<NetworkValue> extra;
    if (layer_.extra != 0) extra = summed(layer_.part(gates, 2));
    give(concat({layer_.part(gates, 0, 2), own}, 3), weights_of(*before_, gates), extra);
  }

  // n = f(x + (r·before)·W)
  void gru() {
    const std::int64_t hidden = layer_.hidden;
    const NetworkValue outer = range_of(w_, 2, 0, 2 * hidden), inner = range_of(w_, 2, 2 * hidden, 3 * hidden);
    const Gate z = layer_.gate(0, sum_of(0)), r = layer_.gate(0, sum_of(1));
    const NetworkValue masked = r.value * *before_;
    const Gate n = layer_.gate(1, layer_.part(x_, 2) + multiplied(masked, inner));
    const NetworkValue of_z = layer_.when_active((*before_ - n.value) * z.slope, 0),
                       of_n = layer_.when_active((1.0 - z.value) * n.slope, 0), of_r = *before_ * r.slope,
                       carry = layer_.when_active(z.value, 1);
    std::vector<NetworkValue> all;
    for (std::int64_t i = layer_.steps; i-- > 0;) {
      const NetworkValue h = *h_ + step_at(*gradient_, i), own = h * step_at(of_n, i),
                         through = multiplied(own, transposed(inner)),
                         first = concat({h * step_at(of_z, i), through * step_at(of_r, i)}, 3);
      h_ = multiplied(first, transposed(outer)) + through * step_at(r.value, i) + h * step_at(carry, i);
      all.push_back(concat({first, own}, 3));
    }
    const NetworkValue gates = joined(all);
    give(gates, concat({weights_of(*before_, layer_.part(gates, 0, 2)), weights_of(masked, layer_.part(gates, 2))}, 2));
  }

  // The gates i, o, f and c: cell = f·before + i·c, h = o·function(cell)
  struct LongGates {
    Gate in, out, forget, own, squashed;
    NetworkValue before, after;  // cells
  };
  void lstm();
  LongGates long_gates() const;
  NetworkValue cells(NetworkValue keep, NetworkValue add) const;
  NetworkValue cells_with_peepholes() const;

  const Recurrence& how_;
  const Use& use_;
  const RecurrentLayer layer_;
  const NetworkValue x_, w_;
  std::optional<NetworkValue> gradient_, before_, states_;  // of h after each step; h ahead of each; its products
  std::optional<NetworkValue> h_, c_;                       // gradients of the state that the next step back has
  std::vector<NetworkValue> of_states_;                     // of h after each step, the last first
  InputGradients result_;
};

// Cells after each step
NetworkValue RecurrentBackward::cells(NetworkValue keep, NetworkValue add) const {
  keep = layer_.when_active(keep, 1), add = layer_.when_active(add, 0);
  std::vector<NetworkValue> all;
  NetworkValue cell = layer_.initial(layer_.c);
  for (std::int64_t i = 0; i < layer_.steps; ++i) all.push_back(cell = cell * step_at(keep, i) + step_at(add, i));
  return joined_steps(all);
}

NetworkValue RecurrentBackward::cells_with_peepholes() const {
  const NetworkValue in = sum_of(0), forget = sum_of(2), own = layer_.gate(1, sum_of(3)).value;
  std::vector<NetworkValue> all;
  NetworkValue cell = layer_.initial(layer_.c);
  for (std::int64_t i = 0; i < layer_.steps; ++i) {
    const NetworkValue opened = layer_.gate(0, step_at(in, i) + cell * layer_.extra_part(0)).value;
    const NetworkValue kept =
        how_.input_forget ? 1.0 - opened : layer_.gate(0, step_at(forget, i) + cell * layer_.extra_part(2)).value;
    const NetworkValue next = cell * kept + opened * step_at(own, i);
    all.push_back(cell = layer_.active ? chosen(step_at(*layer_.active, i), next, cell) : next);
  }
  return joined_steps(all);
}

RecurrentBackward::LongGates RecurrentBackward::long_gates() const {
  const bool peeps = layer_.extra != 0;
  const auto seen = [&](std::int64_t gate, std::int64_t i, NetworkValue cell) {
    return peeps ? sum_of(gate) + cell * layer_.extra_part(i) : sum_of(gate);
  };
  const auto before_of = [&](NetworkValue after) {
    const NetworkValue first = layer_.initial(layer_.c);
    return layer_.steps == 1 ? first : concat({first, range_of(after, 0, 0, layer_.steps - 1)}, 0);
  };
  const Gate own = layer_.gate(1, sum_of(3));
  std::optional<NetworkValue> after, before;
  if (peeps) after = cells_with_peepholes(), before = before_of(*after);
  const NetworkValue ahead = before.value_or(own.value);  // without peepholes nothing sees the cells
  const Gate in = layer_.gate(0, seen(0, 0, ahead));
  const Gate forget = how_.input_forget ? Gate{1.0 - in.value, in.slope} : layer_.gate(0, seen(2, 2, ahead));
  if (!peeps) after = cells(forget.value, in.value * own.value), before = before_of(*after);
  return {in, layer_.gate(0, seen(1, 1, *after)), forget, own, layer_.gate(2, *after, false), *before, *after};
}

void RecurrentBackward::lstm() {
  const LongGates g = long_gates();
  const NetworkValue of_out = g.squashed.value * g.out.slope, of_own = g.in.value * g.own.slope;
  const NetworkValue of_in = g.in.slope * (how_.input_forget ? g.own.value - g.before : g.own.value);
  std::optional<NetworkValue> of_forget;
  if (!how_.input_forget) of_forget = g.forget.slope * g.before;
  NetworkValue to_cell = g.out.value * g.squashed.slope, carry = g.forget.value;
  if (layer_.extra != 0) {
    to_cell = to_cell + of_out * layer_.extra_part(1), carry = carry + of_in * layer_.extra_part(0);
    if (of_forget) carry = carry + *of_forget * layer_.extra_part(2);
  }
  const NetworkValue gates = lead_back({.gates = layer_.stacked({{}, of_out, {}, {}}),
                                        .carry = stays(),
                                        .to_cell = layer_.when_active(to_cell, 0),
                                        .cell_gates = layer_.stacked({of_in, {}, of_forget, of_own}),
                                        .cell_carry = layer_.when_active(carry, 1)});
  std::optional<NetworkValue> extra;
  if (layer_.extra != 0)
    extra = concat({summed(layer_.part(gates, 0) * g.before), summed(layer_.part(gates, 1) * g.after),
                    summed(layer_.part(gates, 2) * g.before)},
                   1);
  give(gates, weights_of(*before_, gates), extra);
}

// A layer of no steps or no rows hands its states on
InputGradients of_nothing(const Recurrence& how, const Use& use) {
  InputGradients result(use.in.size());
  for (std::size_t i = 0; i < use.in.size(); ++i)
    if (use.wanted[i]) result[i] = zeros(use.net, extents_of(use.in[i]));
  std::size_t next = 2 + std::size_t{how.has_extra} + std::size_t{how.has_lengths};
  if (how.has_h) result[next] = shaped(step_at(use.gradient, 0), extents_of(use.in[next])), ++next;
  if (how.has_c) result[next] = shaped(step_at(use.gradient, 1), extents_of(use.in[next]));
  return result;
}

}  // namespace

InputGradients derivative_of(const Recurrence& how, const Use& use) {
  if (use.out.dtype() != DType::f32) refuse_derivative(use, "it computes in f64; gradients are of f32");
  const Extents64 x = extents_of(use.in[0]);
  if (x[0] == 0 || x[1] == 0) return of_nothing(how, use);
  return RecurrentBackward(how, use).result();
}

}  // namespace unisono::autodiff
