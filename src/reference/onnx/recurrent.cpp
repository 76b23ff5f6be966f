/// RNN, GRU and LSTM as ONNX defines them, step by step.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

using Function = std::function<double(double)>;
using Vector = std::vector<Number64>;

double sigma(double x) { return 1 / (1 + std::exp(-x)); }
double softened(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// An activation by its name, with the defaults of the numbers that it has
struct ActivationName {
  const char* name;
  std::optional<double> alpha, beta;
  Function (*make)(double alpha, double beta);
};

constexpr ActivationName activation_names[] = {
    {"affine", 1, 0, [](double a, double b) -> Function { return [=](double x) { return a * x + b; }; }},
    {"elu",
     1,
     {},
     [](double a, double) -> Function { return [=](double x) { return x < 0 ? a * std::expm1(x) : x; }; }},
    {"hardsigmoid", 0.2F, 0.5F,
     [](double a, double b) -> Function { return [=](double x) { return std::clamp(a * x + b, 0.0, 1.0); }; }},
    {"leakyrelu", 0.01F, {}, [](double a, double) -> Function { return [=](double x) { return x < 0 ? a * x : x; }; }},
    {"relu", {}, {}, [](double, double) -> Function { return [](double x) { return std::max(0.0, x); }; }},
    {"scaledtanh", 1, 1, [](double a, double b) -> Function { return [=](double x) { return a * std::tanh(b * x); }; }},
    {"sigmoid", {}, {}, [](double, double) -> Function { return sigma; }},
    {"softplus", {}, {}, [](double, double) -> Function { return softened; }},
    {"softsign", {}, {}, [](double, double) -> Function { return [](double x) { return x / (1 + std::abs(x)); }; }},
    {"tanh", {}, {}, [](double, double) -> Function { return [](double x) { return std::tanh(x); }; }},
    {"thresholdedrelu", 1, {}, [](double a, double) -> Function { return [=](double x) { return x >= a ? x : 0; }; }}};

// Those of all directions; numbers are taken in turn by those that have any
std::vector<Function> activations_of(const Call& call, std::vector<std::string> names) {
  if (const auto* a = call.attribute("activations")) names.assign(a->strings().begin(), a->strings().end());
  const auto numbers = [&](const char* name) {
    const auto* a = call.attribute(name);
    return a == nullptr ? std::vector<float>() : std::vector<float>(a->floats().begin(), a->floats().end());
  };
  const std::vector<float> alphas = numbers("activation_alpha"), betas = numbers("activation_beta");
  std::size_t alpha = 0, beta = 0;
  const auto next = [](const std::optional<double>& own, const std::vector<float>& given, std::size_t& i) {
    return !own ? 0.0 : i < given.size() ? static_cast<double>(given[i++]) : *own;
  };
  std::vector<Function> functions;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto* row = std::find_if(std::begin(activation_names), std::end(activation_names),
                                   [&](const ActivationName& r) { return name == r.name; });
    if (row == std::end(activation_names)) call.fail("activation '" + name + "' is not known");
    const double a = next(row->alpha, alphas, alpha);
    functions.push_back(row->make(a, next(row->beta, betas, beta)));
  }
  return functions;
}

/// One direction of a recurrent operator.
class Recurrence {
 public:
  Recurrence(const Call& call, std::int64_t direction, std::int64_t gates, std::vector<Function> functions)
      : call_(call),
        f_(std::move(functions)),
        direction_(direction),
        gates_(gates),
        hidden_(call.in(2).shape[2]),
        inputs_(call.in(1).shape[2]),
        u_(roundoff(call.in(0).dtype)),
        single_(call.in(0).dtype != DType::f64),
        clip_(call.real("clip", 0)) {}
  virtual ~Recurrence() = default;

  /// h, and the cell c of an LSTM, become those of the next step.
  virtual void step(const std::vector<double>& x, Vector& h, Vector& c) const = 0;

 protected:
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  double w(std::int64_t row, std::int64_t column) const {
    return call_.in(1).value[place(call_.in(1).shape, {direction_, row, column})];
  }
  double r(std::int64_t row, std::int64_t column) const {
    return call_.in(2).value[place(call_.in(2).shape, {direction_, row, column})];
  }
  /// Bias of the input's part (0) or of the state's (1).
  double b(std::int64_t part, std::int64_t row) const {
    if (!call_.has(3)) return 0;
    return call_.in(3).value[place(call_.in(3).shape, {direction_, part * gates_ * hidden_ + row})];
  }
  /// Without a claim where a step may be beyond f32, and in all that follows: functions need have no bound.
  static constexpr Number64 nothing{0, unlimited};
  Number64 within(double value, double bound, double sizes = 0) const {
    constexpr double largest = std::numeric_limits<float>::max();
    return !single_ || (std::abs(value) + bound <= largest && sizes <= largest) ? Number64{value, bound} : nothing;
  }
  /// The input's part of a row.
  Number64 of_input(const std::vector<double>& x, std::int64_t row) const {
    double sum = b(0, row), sizes = std::abs(sum);
    for (std::int64_t i = 0; i < inputs_; ++i) {
      const double term = w(row, i) * x[static_cast<std::size_t>(i)];
      sum += term, sizes += std::abs(term);
    }
    return within(sum, u_ * (std::sqrt(static_cast<double>(inputs_)) + 2) * sizes, sizes);
  }
  /// The state's part of a row: errors of the state add up at random.
  Number64 of_state(const Vector& h, std::int64_t row) const {
    double sum = b(1, row), sizes = std::abs(sum), squares = 0;
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const Number64& state = h[static_cast<std::size_t>(i)];
      const double weight = r(row, i);
      sum += weight * state.value, sizes += std::abs(weight * state.value);
      squares += weight * weight * state.bound * state.bound;
    }
    return within(sum, u_ * (std::sqrt(static_cast<double>(hidden_)) + 2) * sizes + std::sqrt(squares), sizes);
  }
  Number64 sum(Number64 x, Number64 y) const {
    return within(x.value + y.value, x.bound + y.bound + u_ * std::abs(x.value + y.value));
  }
  Number64 product(Number64 x, Number64 y) const {
    return within(x.value * y.value,
                  std::abs(x.value) * y.bound + std::abs(y.value) * x.bound + u_ * std::abs(x.value * y.value));
  }
  /// A gate: its input is clipped. A cell on its way out is not: ONNX leaves that open, and ONNX Runtime does so.
  Number64 apply(std::size_t which, Number64 x) const { return apply(which, x, clip_ > 0 ? clip_ : unlimited); }
  Number64 apply(std::size_t which, Number64 x, double clip) const {
    const auto f = [&](double v) { return f_.at(which)(std::clamp(v, -clip, clip)); };
    const double y = f(x.value), up = f(x.value + x.bound), down = f(x.value - x.bound);
    if (!(x.bound < unlimited)) return nothing;
    return within(y, std::max(std::abs(up - y), std::abs(down - y)) + 4 * u_ * (std::abs(y) + 0.5));
  }

  const Call& call_;
  std::vector<Function> f_;
  std::int64_t direction_, gates_, hidden_, inputs_;
  double u_;
  bool single_;
  double clip_;
};

// h = f(x·Wᵀ + h·Rᵀ + b)
class PlainRecurrence : public Recurrence {
 public:
  using Recurrence::Recurrence;
  void step(const std::vector<double>& x, Vector& h, Vector&) const override {
    Vector next;
    for (std::int64_t i = 0; i < hidden_; ++i) next.push_back(apply(0, sum(of_input(x, i), of_state(h, i))));
    h = std::move(next);
  }
};

// Gates z, r, h
class GatedRecurrence : public Recurrence {
 public:
  using Recurrence::Recurrence;
  void step(const std::vector<double>& x, Vector& h, Vector&) const override {
    const bool linear = call_.integer("linear_before_reset", 0) != 0;
    const auto n = static_cast<std::size_t>(hidden_);
    Vector z(n), reset(n), next(n), masked(n);
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      z[at] = apply(0, sum(of_input(x, i), of_state(h, i)));
      reset[at] = apply(0, sum(of_input(x, hidden_ + i), of_state(h, hidden_ + i)));
      masked[at] = product(reset[at], h[at]);
    }
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t row = 2 * hidden_ + i;
      const Number64 state = linear ? product(reset[at], of_state(h, row)) : of_state(masked, row);
      const Number64 candidate = apply(1, sum(of_input(x, row), state));
      next[at] = sum(product({1 - z[at].value, z[at].bound + u_}, candidate), product(z[at], h[at]));
    }
    h = std::move(next);
  }
};

// Gates i, o, f, c; peepholes of i, o, f
class LongRecurrence : public Recurrence {
 public:
  using Recurrence::Recurrence;
  void step(const std::vector<double>& x, Vector& h, Vector& c) const override {
    const bool coupled = call_.integer("input_forget", 0) != 0;
    Vector next;
    for (std::int64_t i = 0; i < hidden_; ++i) {
      Number64& cell = c[static_cast<std::size_t>(i)];
      const auto gate = [&](std::int64_t which, const Number64& seen, std::int64_t hole) {
        const std::int64_t row = which * hidden_ + i;
        const Number64 input = sum(of_input(x, row), of_state(h, row));
        return hole < 0 ? input : sum(input, product({peephole(hole, i)}, seen));
      };
      const Number64 in = apply(0, gate(0, cell, 0));
      const Number64 forget = coupled ? Number64{1 - in.value, in.bound + u_} : apply(0, gate(2, cell, 2));
      const Number64 candidate = apply(1, gate(3, cell, -1));
      cell = sum(product(forget, cell), product(in, candidate));
      const Number64 out = apply(0, gate(1, cell, 1));
      next.push_back(product(out, apply(2, cell, unlimited)));
    }
    h = std::move(next);
  }

 private:
  double peephole(std::int64_t gate, std::int64_t i) const {
    return call_.has(7) ? call_.in(7).value[place(call_.in(7).shape, {direction_, gate * hidden_ + i})] : 0;
  }
};

// (steps, batch, …) with layout 0, (batch, steps, …) with layout 1
struct Results {
  Tensor64 all, last, cells;
};

/// An element of an initial state: (directions, batch, hidden), or with layout 1 (batch, directions, hidden).
double initial(const Call& call, std::size_t input, bool batch_first, std::int64_t d, std::int64_t b, std::int64_t i) {
  if (!call.has(input)) return 0;
  const Tensor64& t = call.in(input);
  return t.value[place(t.shape, batch_first ? Extents64{b, d, i} : Extents64{d, b, i})];
}

void store(Tensor64& y, const Extents64& at, const Number64& n) {
  y.value[place(y.shape, at)] = n.value;
  y.bound[place(y.shape, at)] = n.bound;
}

// One direction over one batch; a shorter sequence leaves zeros, and a reverse one begins at its own end
void run_direction(const Call& call, const Recurrence& cell, std::int64_t d, bool reverse, std::int64_t b, Results& y) {
  const Tensor64& x = call.in(0);
  const bool batch_first = call.integer("layout", 0) != 0;
  const std::int64_t hidden = call.in(2).shape[2], steps = x.shape[batch_first ? 1 : 0];
  const std::int64_t length = call.has(4) ? call.numbers(4).at(static_cast<std::size_t>(b)) : steps;
  Vector h, c;
  for (std::int64_t i = 0; i < hidden; ++i) {
    h.push_back({initial(call, 5, batch_first, d, b, i)});
    c.push_back({y.cells.shape.empty() ? 0 : initial(call, 6, batch_first, d, b, i)});
  }
  for (std::int64_t k = 0; k < length; ++k) {
    const std::int64_t t = reverse ? length - 1 - k : k;
    std::vector<double> input;
    for (std::int64_t i = 0; i < x.shape[2]; ++i)
      input.push_back(x.value[place(x.shape, batch_first ? Extents64{b, t, i} : Extents64{t, b, i})]);
    cell.step(input, h, c);
    for (std::int64_t i = 0; i < hidden; ++i)
      store(y.all, batch_first ? Extents64{b, t, d, i} : Extents64{t, d, b, i}, h[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t i = 0; i < hidden; ++i) {
    const Extents64 at = batch_first ? Extents64{b, d, i} : Extents64{d, b, i};
    store(y.last, at, h[static_cast<std::size_t>(i)]);
    if (!y.cells.shape.empty()) store(y.cells, at, c[static_cast<std::size_t>(i)]);
  }
}

template <class Cell>
void recurrent(Call& call, std::int64_t gates, const std::vector<std::string>& names, bool has_cell) {
  const Tensor64& x = call.in(0);
  const bool batch_first = call.integer("layout", 0) != 0;
  const std::string direction = call.text("direction", "forward");
  const std::int64_t directions = direction == "bidirectional" ? 2 : 1, hidden = call.in(2).shape[2];
  const std::int64_t steps = x.shape[batch_first ? 1 : 0], batch = x.shape[batch_first ? 0 : 1];
  std::vector<std::string> defaults;
  for (std::int64_t d = 0; d < directions; ++d) defaults.insert(defaults.end(), names.begin(), names.end());
  const std::vector<Function> functions = activations_of(call, defaults);
  if (functions.size() != defaults.size())
    call.fail(std::to_string(functions.size()) + " activations; expected " + std::to_string(defaults.size()));
  Results y;
  y.all = empty_tensor(batch_first ? Extents64{batch, steps, directions, hidden}
                                   : Extents64{steps, directions, batch, hidden});
  y.last = empty_tensor(batch_first ? Extents64{batch, directions, hidden} : Extents64{directions, batch, hidden});
  if (has_cell) y.cells = y.last;
  y.all.dtype = y.last.dtype = y.cells.dtype = x.dtype;
  for (std::int64_t d = 0; d < directions; ++d) {
    const auto first = functions.begin() + d * std::ssize(names);
    const Cell cell(call, d, gates, {first, first + std::ssize(names)});
    for (std::int64_t b = 0; b < batch; ++b) run_direction(call, cell, d, direction == "reverse" || d == 1, b, y);
  }
  call.result(std::move(y.all));
  call.result(std::move(y.last), 1);
  if (has_cell) call.result(std::move(y.cells), 2);
}

void define_rnn(Call& call) { recurrent<PlainRecurrence>(call, 1, {"Tanh"}, false); }
void define_gru(Call& call) { recurrent<GatedRecurrence>(call, 3, {"Sigmoid", "Tanh"}, false); }
void define_lstm(Call& call) { recurrent<LongRecurrence>(call, 4, {"Sigmoid", "Tanh", "Tanh"}, true); }

constexpr OnnxDefinition recurrent_table[] = {{"GRU", define_gru}, {"LSTM", define_lstm}, {"RNN", define_rnn}};

}  // namespace

std::span<const OnnxDefinition> recurrent_definitions() { return recurrent_table; }

}  // namespace unisono::float64
