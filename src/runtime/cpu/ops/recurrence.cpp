#include "runtime/cpu/ops/recurrence.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/cpu/ops/matmul.hpp"
#include "runtime/cpu/vector/unit.hpp"

namespace unisono::cpu {

namespace {

using Kind = GateFunction::Kind;

// Products of a task are at least this many, so that a step of a small layer is one task
constexpr std::int64_t task_products = std::int64_t{1} << 19;
constexpr std::int64_t least_columns = 64;
// Elements of gates below which a step's rows are one task
constexpr std::int64_t task_gates = std::int64_t{1} << 13;

template <class T>
void apply_lanes(Code code, T* x, std::int64_t n, double immediate = 0) {
  LaneArgs a;
  a.result = x, a.source[0] = x, a.step[0] = 1, a.lanes = static_cast<std::size_t>(n), a.immediate[0] = immediate;
  const VectorUnit& unit = vector_unit();
  const auto i = static_cast<std::size_t>(code);
  (sizeof(T) == sizeof(float) ? unit.float_lane[i] : unit.double_lane[i])(a);
}

template <class T>
void apply(const GateFunction& f, T* x, std::int64_t n) {
  const T alpha = static_cast<T>(f.alpha), beta = static_cast<T>(f.beta);
  const auto each = [&](const auto& function) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = function(x[i]);
  };
  switch (f.kind) {
    case Kind::affine: return each([&](T v) { return alpha * v + beta; });
    case Kind::elu: return apply_lanes(Code::elu, x, n, f.alpha);
    case Kind::hard_sigmoid: return each([&](T v) { return std::clamp(alpha * v + beta, T(0), T(1)); });
    case Kind::leaky_relu: return each([&](T v) { return v < 0 ? alpha * v : v; });
    case Kind::relu: return each([](T v) { return v < 0 ? T(0) : v; });
    case Kind::scaled_tanh:
      each([&](T v) { return beta * v; });
      apply_lanes(Code::tanh, x, n);
      return each([&](T v) { return alpha * v; });
    case Kind::sigmoid: return apply_lanes(Code::sigmoid, x, n);
    case Kind::softplus: return apply_lanes(Code::softplus, x, n);
    case Kind::softsign: return each([](T v) { return v / (1 + std::abs(v)); });
    case Kind::tanh: return apply_lanes(Code::tanh, x, n);
    case Kind::thresholded_relu: return each([&](T v) { return v > alpha ? v : T(0); });
  }
}

// Columns first to before last of the weights times a state, for all directions
class StateProduct {
 public:
  StateProduct(const operators::Recurrence& how, const RecurrenceTensors& t, std::int64_t first, std::int64_t last)
      : first_(first) {
    const std::int64_t directions = t.weights.shape[0], hidden = t.weights.shape[1], all = gates_of(how.cell) * hidden;
    const std::int64_t rows = t.x.shape[1], columns = last - first;
    // blocks of columns are an axis of the batch, so that one row is the work of several threads
    std::int64_t blocks = 1;
    while (columns % (2 * blocks) == 0 && columns / (2 * blocks) >= least_columns &&
           hidden * rows * columns / (2 * blocks) >= task_products)
      blocks *= 2;
    const std::int64_t width = columns / blocks;
    const auto& w = t.weights.strides;
    const DType type = t.x.dtype;
    const Strided a{nullptr, type, {directions, 1, rows, hidden}, {rows * hidden, 0, hidden, 1}};
    const Strided b{nullptr, type, {directions, blocks, hidden, width}, {w[0], width * w[2], w[1], w[2]}};
    const Strided y{nullptr, type, {directions, blocks, rows, width}, {rows * all, width, all, 1}};
    column_bytes_ = first * w[2] * static_cast<std::int64_t>(size_of(type));
    result_bytes_ = first * static_cast<std::int64_t>(size_of(type));
    product_.emplace(a, b, y);
  }
  void run(const void* state, const void* weights, std::byte* gates, const Parallel& parallel,
           const OperatorScratch& scratch) const {
    product_->run(state, static_cast<const std::byte*>(weights) + column_bytes_, gates + result_bytes_, parallel,
                  scratch);
  }
  std::size_t thread_bytes() const { return product_->thread_bytes(); }

 private:
  std::int64_t first_, column_bytes_ = 0, result_bytes_ = 0;
  std::optional<BatchedMatmul> product_;
};

// Dense memory of a run: (D,N,·)
template <class T>
struct Buffers {
  T *h, *c, *gates, *masked;
};

template <class T>
const T* element(const Strided& x, const void* memory, std::int64_t i, std::int64_t j, std::int64_t k = 0) {
  const T* p = static_cast<const T*>(memory) + i * x.strides[0] + j * x.strides[1];
  return x.strides.size() > 2 ? p + k * x.strides[2] : p;
}

// A row of a direction at one step
template <class T>
class Row {
 public:
  Row(const operators::Recurrence& how, const RecurrenceTensors& t, const RecurrenceMemory& memory, const Buffers<T>& b,
      std::int64_t direction, std::int64_t row, std::int64_t step)
      : how_(how),
        t_(t),
        memory_(memory),
        hidden_(t.weights.shape[1]),
        direction_(direction),
        row_(row),
        step_(step),
        columns_(gates_of(how.cell) * hidden_) {
    const std::int64_t at = direction * t.x.shape[1] + row;
    h_ = b.h + at * hidden_, c_ = b.c == nullptr ? nullptr : b.c + at * hidden_;
    masked_ = b.masked == nullptr ? nullptr : b.masked + at * hidden_;
    gates_ = b.gates + at * columns_;
  }

  bool runs() const {
    if (!how_.has_lengths) return true;
    return step_ < static_cast<const std::int32_t*>(memory_.lengths)[row_ * t_.lengths.strides[0]];
  }
  // The reset times the state, for the product that follows
  void mask() {
    add_input(0, 2);
    function(0, 0, 2);
    for (std::int64_t i = 0; i < hidden_; ++i) masked_[i] = gate(1)[i] * h_[i];
  }
  void finish() {
    switch (how_.cell) {
      case RecurrentCell::rnn:
        add_input(0, 1);
        function(0, 0, 1);
        std::copy_n(gate(0), hidden_, h_);
        break;
      case RecurrentCell::gru: finish_gru(); break;
      case RecurrentCell::lstm: finish_lstm(); break;
    }
  }
  // Row `place` of the result: the state, or zeros
  void store(const T* from, std::int64_t place) const {
    T* to = const_cast<T*>(element<T>(t_.to, memory_.to, place, row_, direction_ * hidden_));
    for (std::int64_t i = 0; i < hidden_; ++i) to[i * t_.to.strides[2]] = from == nullptr ? T(0) : from[i];
  }
  const T* h() const { return h_; }
  const T* c() const { return c_; }

 private:
  T* gate(std::int64_t g) const { return gates_ + g * hidden_; }
  void add_input(std::int64_t first, std::int64_t last) const {
    const T* x = element<T>(t_.x, memory_.x, step_, row_, direction_ * columns_ + first * hidden_);
    T* to = gate(first);
    for (std::int64_t i = 0; i < (last - first) * hidden_; ++i) to[i] += x[i * t_.x.strides[2]];
  }
  // Function f of the direction, on these gates
  void function(std::size_t f, std::int64_t first, std::int64_t last) const {
    T* x = gate(first);
    const std::int64_t n = (last - first) * hidden_;
    const T most = static_cast<T>(how_.clip);
    for (std::int64_t i = 0; most > 0 && i < n; ++i) x[i] = x[i] < -most ? -most : x[i] > most ? most : x[i];
    apply(how_.functions[static_cast<std::size_t>(direction_ * functions_of(how_.cell)) + f], x, n);
  }
  void add_peephole(std::int64_t g) const {
    if (!how_.has_extra) return;
    const T* p = element<T>(t_.extra, memory_.extra, direction_, g * hidden_);
    for (std::int64_t i = 0; i < hidden_; ++i) gate(g)[i] += p[i * t_.extra.strides[1]] * c_[i];
  }
  void finish_gru() {
    if (how_.linear_before_reset) {
      add_input(0, 2);
      function(0, 0, 2);
      const T* bias = how_.has_extra ? element<T>(t_.extra, memory_.extra, direction_, 0) : nullptr;
      for (std::int64_t i = 0; i < hidden_; ++i)
        gate(2)[i] = gate(1)[i] * (gate(2)[i] + (bias == nullptr ? T(0) : bias[i * t_.extra.strides[1]]));
    }
    add_input(2, 3);
    function(1, 2, 3);
    for (std::int64_t i = 0; i < hidden_; ++i) h_[i] = (1 - gate(0)[i]) * gate(2)[i] + gate(0)[i] * h_[i];
  }
  void finish_lstm() {
    add_input(0, 4);
    add_peephole(0);
    function(0, 0, 1);
    if (!how_.input_forget) {
      add_peephole(2);
      function(0, 2, 3);
    }
    function(1, 3, 4);
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const T in = gate(0)[i], forget = how_.input_forget ? 1 - in : gate(2)[i];
      c_[i] = forget * c_[i] + in * gate(3)[i];
    }
    add_peephole(1);
    function(0, 1, 2);
    T* out = gate(3);
    std::copy_n(c_, hidden_, out);
    apply(how_.functions[static_cast<std::size_t>(direction_ * functions_of(how_.cell)) + 2], out, hidden_);
    for (std::int64_t i = 0; i < hidden_; ++i) h_[i] = gate(1)[i] * out[i];
  }

  const operators::Recurrence& how_;
  const RecurrenceTensors& t_;
  const RecurrenceMemory& memory_;
  std::int64_t hidden_, direction_, row_, step_, columns_;
  T *h_, *c_, *gates_, *masked_;
};

bool masks(const operators::Recurrence& how) { return how.cell == RecurrentCell::gru && !how.linear_before_reset; }

}  // namespace

struct Recurrence::State {
  operators::Recurrence how;
  RecurrenceTensors t;
  std::vector<StateProduct> products;  // a GRU's may be two
  std::int64_t steps, rows, directions, hidden;
  std::size_t state_bytes, gate_bytes, product_bytes;

  bool has_cell() const { return how.cell == RecurrentCell::lstm; }
  std::int64_t step_of(std::int64_t direction, std::int64_t i) const {
    return how.reverse || direction == 1 ? steps - 1 - i : i;
  }
  // body(direction, row) for all of them
  template <class F>
  void for_rows(const Parallel& parallel, const F& body) const {
    const auto some = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i / rows, i % rows);
    };
    const std::int64_t all = directions * rows;
    (all * hidden * gates_of(how.cell) < task_gates ? Parallel(serial) : parallel)(all, some);
  }
  template <class T>
  void run(const RecurrenceMemory& memory, const Parallel& parallel, const OperatorScratch& scratch) const;
};

Recurrence::Recurrence(const operators::Recurrence& how, RecurrenceTensors tensors, int threads) {
  State s{how, std::move(tensors), {}, 0, 0, 0, 0, 0, 0, 0};
  const RecurrenceTensors& t = s.t;
  s.steps = t.x.shape[0], s.rows = t.x.shape[1], s.directions = t.weights.shape[0], s.hidden = t.weights.shape[1];
  const std::int64_t gates = gates_of(how.cell) * s.hidden;
  const std::int64_t first = masks(how) ? 2 * s.hidden : gates;
  if (s.rows > 0) {
    s.products.emplace_back(how, t, 0, first);
    if (first < gates) s.products.emplace_back(how, t, first, gates);
  }
  const auto bytes = [&](std::int64_t columns) {
    return aligned_size(static_cast<std::size_t>(s.directions * s.rows * columns) * size_of(t.x.dtype));
  };
  s.state_bytes = bytes(s.hidden), s.gate_bytes = bytes(gates);
  for (const StateProduct& p : s.products)
    s.product_bytes = std::max(s.product_bytes, static_cast<std::size_t>(threads) * p.thread_bytes());
  state_ = std::make_shared<const State>(std::move(s));
}

// Scratch: h, c or what is masked, gates, the products'
std::size_t Recurrence::scratch_bytes() const {
  return 2 * state_->state_bytes + state_->gate_bytes + state_->product_bytes;
}

template <class T>
void Recurrence::State::run(const RecurrenceMemory& memory, const Parallel& parallel,
                            const OperatorScratch& scratch) const {
  const auto place = [&](std::size_t bytes) { return reinterpret_cast<T*>(scratch.data + bytes); };
  T* const second = place(state_bytes);
  const Buffers<T> b{place(0), has_cell() ? second : nullptr, place(2 * state_bytes), masks(how) ? second : nullptr};
  auto* const gates = reinterpret_cast<std::byte*>(b.gates);
  const OperatorScratch rest{scratch.data + 2 * state_bytes + gate_bytes, scratch.threads};
  const auto begin = [&](const Strided& from, const void* given, T* to) {
    for (std::int64_t i = 0; i < directions * rows * hidden; ++i) {
      const std::int64_t d = i / (rows * hidden), n = i / hidden % rows;
      to[i] = given == nullptr ? T(0) : *element<T>(from, given, n, d * hidden + i % hidden);
    }
  };
  begin(t.h, memory.h, b.h);
  if (has_cell()) begin(t.c, memory.c, b.c);
  const int states = states_of(how.cell);
  for (std::int64_t i = 0; i < steps; ++i) {
    products[0].run(b.h, memory.weights, gates, parallel, rest);
    if (masks(how)) {
      for_rows(parallel,
               [&](std::int64_t d, std::int64_t n) { Row<T>(how, t, memory, b, d, n, step_of(d, i)).mask(); });
      products[1].run(b.masked, memory.weights, gates, parallel, rest);
    }
    for_rows(parallel, [&](std::int64_t d, std::int64_t n) {
      Row<T> row(how, t, memory, b, d, n, step_of(d, i));
      const bool runs = row.runs();
      if (runs) row.finish();
      row.store(runs ? row.h() : nullptr, states + step_of(d, i));
    });
  }
  for_rows(parallel, [&](std::int64_t d, std::int64_t n) {
    const Row<T> row(how, t, memory, b, d, n, 0);
    row.store(row.h(), 0);
    if (has_cell()) row.store(row.c(), 1);
  });
}

void Recurrence::run(const RecurrenceMemory& memory, const Parallel& parallel, const OperatorScratch& scratch) const {
  if (state_->rows == 0) return;
  if (state_->t.x.dtype == DType::f64) return state_->run<double>(memory, parallel, scratch);
  state_->run<float>(memory, parallel, scratch);
}

}  // namespace unisono::cpu
