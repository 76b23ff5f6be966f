/// Recurrence, see tensors.hpp: step by step, as operators::Recurrence has it.

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/network/tensors.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

// A number of a step, and how far an implementation may be off
struct Term {
  double value = 0, bound = 0;
};
using Terms = std::vector<Term>;

double function_of(const GateFunction& f, double x) {
  using Kind = GateFunction::Kind;
  switch (f.kind) {
    case Kind::affine: return f.alpha * x + f.beta;
    case Kind::elu: return x < 0 ? f.alpha * std::expm1(x) : x;
    case Kind::hard_sigmoid: return std::clamp(f.alpha * x + f.beta, 0.0, 1.0);
    case Kind::leaky_relu: return x < 0 ? f.alpha * x : x;
    case Kind::relu: return x < 0 ? 0 : x;
    case Kind::scaled_tanh: return f.alpha * std::tanh(f.beta * x);
    case Kind::sigmoid: return 1 / (1 + std::exp(-x));
    case Kind::softplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Kind::softsign: return x / (1 + std::abs(x));
    case Kind::tanh: return std::tanh(x);
    case Kind::thresholded_relu: return x > f.alpha ? x : 0;
  }
  throw InternalError("unknown function of a gate");
}

/// The rows of one direction.
class Direction {
 public:
  Direction(const operators::Recurrence& o, const ReferenceInputs& in, std::int64_t direction)
      : o_(o),
        x_(*in[0]),
        w_(*in[1]),
        direction_(direction),
        hidden_(w_.shape[1]),
        columns_(w_.shape[2]),
        u_(unit_roundoff(x_.dtype)),
        single_(x_.dtype != DType::f64) {
    std::size_t next = 2;
    for (auto [given, tensor] :
         {std::pair{o.has_extra, &extra_}, {o.has_lengths, &lengths_}, {o.has_h, &h_}, {o.has_c, &c_}})
      if (given) *tensor = in[next++];
  }

  void run(std::int64_t row, Tensor64& y) const {
    const std::int64_t steps = x_.shape[0], states = states_of(o_.cell);
    const auto length = lengths_ == nullptr ? steps : static_cast<std::int64_t>(lengths_->value[size(row)]);
    Terms h = initial(h_, row), c = initial(c_, row);
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t t = o_.reverse || direction_ == 1 ? steps - 1 - i : i;
      if (t >= length) continue;
      step(t, row, h, c);
      store(h, states + t, row, y);
    }
    store(h, 0, row, y);
    if (states == 2) store(c, 1, row, y);
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  Terms initial(const Tensor64* from, std::int64_t row) const {
    Terms all(size(hidden_));
    for (std::int64_t i = 0; from != nullptr && i < hidden_; ++i)
      all[size(i)].value = from->value[place(from->shape, {row, direction_ * hidden_ + i})];
    return all;
  }
  void store(const Terms& from, std::int64_t to, std::int64_t row, Tensor64& y) const {
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const std::size_t at = place(y.shape, {to, row, direction_ * hidden_ + i});
      y.value[at] = from[size(i)].value, y.bound[at] = from[size(i)].bound;
    }
  }

  // Without a claim where a step may be beyond f32, and in all that follows: functions need have no bound
  static constexpr Term nothing{0, no_claim};
  Term within(double value, double bound, double sizes = 0) const {
    constexpr double largest = std::numeric_limits<float>::max();
    return !single_ || (std::abs(value) + bound <= largest && sizes <= largest) ? Term{value, bound} : nothing;
  }
  Term sum(Term a, Term b) const {
    const double y = a.value + b.value;
    return within(y, a.bound + b.bound + u_ * std::abs(y));
  }
  Term product(Term a, Term b) const {
    const double y = a.value * b.value;
    return within(y, std::abs(a.value) * b.bound + std::abs(b.value) * a.bound + u_ * std::abs(y));
  }
  Term one_less(Term a) const { return {1 - a.value, a.bound + u_}; }
  double clipped(double x) const { return o_.clip > 0 ? std::clamp(x, -o_.clip, o_.clip) : x; }
  // Function f of the direction, with twice the four roundings that a unit grants
  Term apply(std::size_t f, Term x, bool clip = true) const {
    const GateFunction& g = o_.functions[size(direction_ * functions_of(o_.cell)) + f];
    const auto at = [&](double v) { return function_of(g, clip ? clipped(v) : v); };
    const double y = at(x.value);
    if (!(x.bound < no_claim)) return nothing;
    return within(y, std::max(std::abs(at(x.value + x.bound) - y), std::abs(at(x.value - x.bound) - y)) +
                         8 * u_ * (std::abs(y) + 0.5));
  }
  // A column of the product with the state: its errors add up at random, as those of the sum do
  Term of_state(const Terms& h, std::int64_t column) const {
    double sum = 0, sizes = 0, squares = 0;
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const double w = w_.value[size((direction_ * hidden_ + i) * columns_ + column)], term = w * h[size(i)].value;
      sum += term, sizes += std::abs(term), squares += std::pow(w * h[size(i)].bound, 2);
    }
    return within(sum, u_ * std::sqrt(static_cast<double>(hidden_)) * sizes + std::sqrt(squares), sizes);
  }
  Term of_input(std::int64_t t, std::int64_t row, std::int64_t column) const {
    return {x_.value[place(x_.shape, {t, row, direction_ * columns_ + column})]};
  }
  Term extra(std::int64_t i) const {
    return {extra_ == nullptr ? 0 : extra_->value[place(extra_->shape, {direction_, i})]};
  }

  void step(std::int64_t t, std::int64_t row, Terms& h, Terms& c) const {
    Terms next(size(hidden_)), masked(size(hidden_));
    const auto gate = [&](std::int64_t g, std::int64_t i) {
      return sum(of_state(h, g * hidden_ + i), of_input(t, row, g * hidden_ + i));
    };
    const auto reset = [&](std::int64_t i) { return apply(0, gate(1, i)); };
    const bool masks = o_.cell == RecurrentCell::gru && !o_.linear_before_reset;
    for (std::int64_t i = 0; masks && i < hidden_; ++i) masked[size(i)] = product(reset(i), h[size(i)]);
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const Term before = h[size(i)];
      if (o_.cell == RecurrentCell::rnn) next[size(i)] = apply(0, gate(0, i));
      if (o_.cell == RecurrentCell::lstm) next[size(i)] = long_state(i, c[size(i)], gate);
      if (o_.cell != RecurrentCell::gru) continue;
      const std::int64_t column = 2 * hidden_ + i;
      const Term inner = masks ? of_state(masked, column) : product(reset(i), sum(of_state(h, column), extra(i)));
      const Term z = apply(0, gate(0, i)), own = apply(1, sum(of_input(t, row, column), inner));
      next[size(i)] = sum(product(one_less(z), own), product(z, before));
    }
    h = std::move(next);
  }
  // h of an LSTM, whose cell becomes the next one
  template <class Gate>
  Term long_state(std::int64_t i, Term& c, const Gate& gate) const {
    const auto seen = [&](std::int64_t g) {
      return extra_ == nullptr ? gate(g, i) : sum(gate(g, i), product(extra(g * hidden_ + i), c));
    };
    const Term in = apply(0, seen(0)), forget = o_.input_forget ? one_less(in) : apply(0, seen(2));
    c = sum(product(forget, c), product(in, apply(1, gate(3, i))));
    const Term out = apply(0, seen(1));
    return product(out, apply(2, c, false));
  }

  const operators::Recurrence& o_;
  const Tensor64 &x_, &w_;
  const Tensor64 *extra_ = nullptr, *lengths_ = nullptr, *h_ = nullptr, *c_ = nullptr;
  std::int64_t direction_, hidden_, columns_;
  double u_;
  bool single_;
};

}  // namespace

Tensor64 evaluate_tensors(const operators::Recurrence& o, const ReferenceInputs& in) {
  const Extents64 &x = in[0]->shape, &w = in[1]->shape;
  Tensor64 y = empty_tensor({x[0] + states_of(o.cell), x[1], w[0] * w[1]});
  for (std::int64_t d = 0; d < w[0]; ++d) {
    const Direction direction(o, in, d);
    for (std::int64_t row = 0; row < x[1]; ++row) direction.run(row, y);
  }
  return y;
}

}  // namespace unisono::float64
