/// RNN, GRU and LSTM of a fixed number of steps: one product with the inputs of all of them, then the steps in turn.

#include <algorithm>

#include "network/onnx/recurrent_cells.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::int64_t most_steps = 1024;        // of all directions of a layer
constexpr std::size_t most_operators = 200'000;  // of a network, with those of steps
constexpr std::int64_t most_hidden = std::int64_t{1} << 20;

class Layer {
 public:
  Layer(const NodeReader& node, const Cell& cell) : node_(node), cell_(cell), x_(node.value(0)) {
    const std::int64_t layout = node.integer("layout", 0);
    if (layout != 0 && layout != 1) node.fail("layout is {}; expected 0 or 1", layout);
    batch_first_ = layout == 1;
    read_direction();
    read_weights();
    if (batch_first_) x_ = transposed(node, x_, {1, 0, 2});
    read_steps();
    clip_ = node.real("clip", 0);
    if (!(clip_ >= 0)) node.fail("clip is {}; expected 0 or more", clip_);
    linear_before_reset_ = node.integer("linear_before_reset", 0) != 0;
  }

  void import() {
    read_biases();
    read_lengths();
    const NetworkValue inputs = input_product();
    const std::vector<GateFunction> functions = gate_functions(node_, cell_, static_cast<std::size_t>(directions_));
    std::vector<NetworkValue> y, h, c;
    for (std::int64_t d = 0; d < directions_; ++d) {
      const auto first = functions.begin() + d * static_cast<std::ptrdiff_t>(cell_.functions);
      const Recurrence r{.node = node_,
                         .cell = cell_,
                         .hidden = hidden_,
                         .functions = {first, first + static_cast<std::ptrdiff_t>(cell_.functions)},
                         .clip = clip_,
                         .input_forget = node_.integer("input_forget", 0) != 0,
                         .linear_before_reset = linear_before_reset_,
                         .weights = transposed(node_, matrix_of(node_.value(2), d), {1, 0}),
                         .extra = extra_of(d)};
      const RecurrentState last = run(r, d, inputs, y);
      h.push_back(reshape_to(node_, *last.h, {1, batch_, hidden_}));
      if (last.c) c.push_back(reshape_to(node_, *last.c, {1, batch_, hidden_}));
    }
    give(y, h, c);
  }

 private:
  void read_direction() {
    const std::string direction = node_.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      node_.fail("direction is '{}'; expected forward, reverse or bidirectional", direction);
    reverse_ = direction == "reverse";
    directions_ = direction == "bidirectional" ? 2 : 1;
  }
  void require(int input, const char* what, const Shape& expected) const {
    if (!node_.has(input)) return;
    const Shape shape = node_.value(input).shape();
    if (shape != expected) node_.fail("{} has shape {}; expected {}", what, to_string(shape), to_string(expected));
  }
  void read_weights() {
    const Shape w = node_.value(1).shape(), r = node_.value(2).shape();
    if (x_.shape().size() != 3)
      node_.fail("X has shape {}; expected {}", to_string(x_.shape()), batch_first_ ? "(N,T,I)" : "(T,N,I)");
    if (r.size() != 3 || !r[2].known() || w.size() != 3 || !w[2].known())
      node_.fail("W has shape {} and R {}; expected (D,{}·H,I) and (D,{}·H,H)", to_string(w), to_string(r), cell_.gates,
                 cell_.gates);
    hidden_ = r[2].value();
    if (hidden_ < 1 || hidden_ > most_hidden) node_.fail("the state has {} elements; expected 1 to 2^20", hidden_);
    if (node_.integer("hidden_size", hidden_) != hidden_)
      node_.fail("hidden_size is {}, and R has shape {}", node_.integer("hidden_size", hidden_), to_string(r));
    columns_ = cell_.gates * hidden_;
    require(1, "W", {directions_, columns_, w[2]});
    require(2, "R", {directions_, columns_, hidden_});
    require(3, "B", {directions_, 2 * columns_});
    if (cell_.kind == CellKind::lstm) require(7, "P", {directions_, 3 * hidden_});
  }
  void read_steps() {
    const Dim steps = x_.shape()[0];
    batch_ = x_.shape()[1];
    if (!steps.known())
      node_.fail(
          "X has {} steps, which is no number yet; a layer is imported by its steps: give that axis a fixed extent, or "
          "run the layer in pieces whose states are inputs and outputs",
          to_string(steps));
    steps_ = steps.value();
    if (steps_ < 1 || steps_ * directions_ > most_steps)
      node_.fail(
          "X has {} steps, in {} directions; expected 1 to {} steps in all: run the layer in pieces whose states "
          "are inputs and outputs",
          steps_, directions_, most_steps);
    const auto more = static_cast<std::size_t>(steps_ * directions_) * static_cast<std::size_t>(cell_.operators);
    if (const std::size_t so_far = node_.builder().so_far().operators.size(); so_far + more > most_operators)
      node_.fail("the steps of this layer are up to {} operators, and the model has {} so far; the limit is {}", more,
                 so_far, most_operators);
  }

  NetworkValue part(NetworkValue x, int axis, std::int64_t begin, std::int64_t end) const {
    if (x.shape()[static_cast<std::size_t>(axis)] == Dim(end - begin)) return x;
    return node_.apply(operators::Slice{{begin}, {end}, {1}, {axis}}, {x});
  }
  // x[i], a matrix
  NetworkValue matrix_of(NetworkValue x, std::int64_t i) const {
    const Shape shape = x.shape();
    return reshape_to(node_, part(x, 0, i, i + 1), {shape[1], shape[2]});
  }
  NetworkValue added(NetworkValue x, NetworkValue y) const {
    return x.dtype() == DType::f32 ? node_.elementwise(Op::add, {x, y}) : node_.map(MapOp::add, {x, y});
  }

  // Biases that are added to the product with the input; a GRU's that the reset scales stays with the steps
  void read_biases() {
    if (cell_.kind == CellKind::lstm && node_.has(7)) extra_ = node_.value(7);
    if (!node_.has(3)) return;
    const NetworkValue b = node_.value(3);
    const NetworkValue of_input = part(b, 1, 0, columns_), of_state = part(b, 1, columns_, 2 * columns_);
    if (cell_.kind == CellKind::gru && linear_before_reset_) {
      const std::int64_t plain = 2 * hidden_;
      bias_ = node_.apply(
          operators::Concat{.axis = 1},
          {added(part(of_input, 1, 0, plain), part(of_state, 1, 0, plain)), part(of_input, 1, plain, columns_)});
      extra_ = part(of_state, 1, plain, columns_);
    } else {
      bias_ = added(of_input, of_state);
    }
    bias_ = node_.apply(operators::Reshape{{directions_ * columns_}}, {*bias_});
  }
  std::optional<NetworkValue> extra_of(std::int64_t direction) const {
    if (!extra_) return std::nullopt;
    return part(*extra_, 0, direction, direction + 1);
  }

  // (N,1), if any row may be shorter than the whole
  void read_lengths() {
    if (!node_.has(4)) return;
    if (node_.is_integers(4)) {
      const std::vector<Dim> given = node_.integers(4).elements;
      if (std::all_of(given.begin(), given.end(), [&](const Dim& d) { return d == Dim(steps_); })) return;
    }
    const NetworkValue lengths = node_.value(4);
    if (lengths.shape().size() != 1)
      node_.fail("sequence_lens has shape {}; expected ({})", to_string(lengths.shape()), to_string(batch_));
    lengths_ = reshape_to(node_, lengths, {lengths.shape()[0], 1});
  }

  // (T,N,D·G·H)
  NetworkValue input_product() const {
    const NetworkValue w = node_.value(1);
    const operators::Reshape flat{{directions_ * columns_, w.shape()[2].value()}, true};
    const NetworkValue y = matrix_product(node_, x_, transposed(node_, node_.apply(flat, {w}), {1, 0}));
    return bias_ ? added(y, *bias_) : y;
  }
  std::optional<NetworkValue> initial(int input, std::int64_t direction) const {
    if (!node_.has(input) || (input == 6 && cell_.kind != CellKind::lstm)) return std::nullopt;
    const NetworkValue given = node_.value(input);
    if (given.shape().size() != 3 || given.shape()[2] != Dim(hidden_) ||
        given.shape()[batch_first_ ? 1 : 0] != Dim(directions_))
      node_.fail("input '{}' has shape {}; expected {}", node_.proto().input(input), to_string(given.shape()),
                 to_string(batch_first_ ? Shape{batch_, directions_, hidden_} : Shape{directions_, batch_, hidden_}));
    const NetworkValue state = batch_first_ ? transposed(node_, given, {1, 0, 2}) : given;
    return reshape_to(node_, part(state, 0, direction, direction + 1), {state.shape()[1], hidden_});
  }

  // `now` in rows that still run, else what was before
  NetworkValue kept(NetworkValue runs, NetworkValue now, const std::optional<NetworkValue>& before) const {
    return node_.map(MapOp::select, {runs, now, before ? *before : node_.number_like(now, 0)});
  }

  // Adds (T,N,H) to y
  RecurrentState run(const Recurrence& r, std::int64_t direction, NetworkValue inputs,
                     std::vector<NetworkValue>& y) const {
    RecurrentState state{initial(5, direction), initial(6, direction)};
    std::vector<NetworkValue> outputs;
    const NetworkValue own = part(inputs, 2, direction * columns_, (direction + 1) * columns_);
    const bool back = reverse_ || direction == 1;
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t t = back ? steps_ - 1 - i : i;
      RecurrentState next = next_state(r, matrix_of(own, t), state);
      std::optional<NetworkValue> out = next.h;
      if (lengths_) {
        const NetworkValue runs =
            node_.map(MapOp::greater, {*lengths_, node_.number_like(*lengths_, static_cast<double>(t))});
        out = kept(runs, *next.h, std::nullopt);
        next.h = kept(runs, *next.h, state.h);
        if (next.c) next.c = kept(runs, *next.c, state.c);
      }
      if (node_.wants(0)) outputs.push_back(reshape_to(node_, *out, {1, batch_, hidden_}));
      state = next;
    }
    if (back) std::reverse(outputs.begin(), outputs.end());
    if (node_.wants(0)) y.push_back(joined(outputs, 0));
    return state;
  }
  NetworkValue joined(const std::vector<NetworkValue>& parts, int axis) const {
    return parts.size() == 1 ? parts[0] : node_.apply(operators::Concat{.axis = axis}, parts);
  }

  void give(std::vector<NetworkValue> y, const std::vector<NetworkValue>& h, const std::vector<NetworkValue>& c) const {
    for (NetworkValue& of_direction : y) of_direction = reshape_to(node_, of_direction, {steps_, 1, batch_, hidden_});
    if (node_.wants(0)) {
      const NetworkValue all = joined(y, 1);
      node_.result(batch_first_ ? transposed(node_, all, {2, 0, 1, 3}) : all);
    }
    const auto last = [&](const std::vector<NetworkValue>& states, int output) {
      if (!node_.wants(output)) return;
      const NetworkValue all = joined(states, 0);
      node_.result(batch_first_ ? transposed(node_, all, {1, 0, 2}) : all, output);
    };
    last(h, 1);
    last(c, 2);
    if (!node_.wants(0) && !node_.wants(1) && !node_.wants(2)) node_.fail("has no output");
  }

  const NodeReader& node_;
  const Cell& cell_;
  NetworkValue x_;
  Dim batch_;
  bool batch_first_ = false, reverse_ = false, linear_before_reset_ = false;
  double clip_ = 0;
  std::int64_t directions_ = 1, hidden_ = 0, columns_ = 0, steps_ = 0;
  std::optional<NetworkValue> bias_, extra_, lengths_;
};

constexpr Cell rnn{CellKind::rnn, 1, 1, 12}, gru{CellKind::gru, 3, 2, 28}, lstm{CellKind::lstm, 4, 3, 44};

template <const Cell& cell>
void import_layer(const NodeReader& node) {
  Layer(node, cell).import();
}

constexpr OperatorRow recurrence_table[] = {
    {"GRU", 7, import_layer<gru>}, {"LSTM", 7, import_layer<lstm>}, {"RNN", 7, import_layer<rnn>}};

}  // namespace

std::span<const OperatorRow> recurrence_rows() { return recurrence_table; }

}  // namespace unisono::network::onnx_import
