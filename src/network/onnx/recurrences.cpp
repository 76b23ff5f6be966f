/// RNN, GRU and LSTM: one product with the inputs of all steps, then the steps.

#include <algorithm>
#include <array>
#include <cctype>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"
#include "network/shape_limits.hpp"

namespace unisono::network::onnx_import {

namespace {

using Kind = GateFunction::Kind;

constexpr std::int64_t most_hidden = std::int64_t{1} << 20;

struct FunctionRow {
  std::string_view name;  // in lower case
  Kind kind;
  std::optional<double> alpha, beta;  // the default of one that it has
};
constexpr std::array gate_functions_table{FunctionRow{"affine", Kind::affine, 1, 0},
                                          FunctionRow{"elu", Kind::elu, 1, std::nullopt},
                                          FunctionRow{"hardsigmoid", Kind::hard_sigmoid, 0.2, 0.5},
                                          FunctionRow{"leakyrelu", Kind::leaky_relu, 0.01, std::nullopt},
                                          FunctionRow{"relu", Kind::relu, std::nullopt, std::nullopt},
                                          FunctionRow{"scaledtanh", Kind::scaled_tanh, 1, 1},
                                          FunctionRow{"sigmoid", Kind::sigmoid, std::nullopt, std::nullopt},
                                          FunctionRow{"softplus", Kind::softplus, std::nullopt, std::nullopt},
                                          FunctionRow{"softsign", Kind::softsign, std::nullopt, std::nullopt},
                                          FunctionRow{"tanh", Kind::tanh, std::nullopt, std::nullopt},
                                          FunctionRow{"thresholdedrelu", Kind::thresholded_relu, 1, std::nullopt}};

const FunctionRow& function_row(const NodeReader& node, const std::string& name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const FunctionRow& row : gate_functions_table)
    if (row.name == lower) return row;
  const bool word = name.size() < 64 && std::all_of(name.begin(), name.end(),
                                                    [](char c) { return std::isalnum(static_cast<unsigned char>(c)); });
  node.fail(
      "activation '{}' is unknown; expected Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, "
      "Softsign, Tanh or ThresholdedRelu",
      word ? name : "…");
}

// Those of all directions: by the attributes, or by default. Alphas and betas are taken in turn by those that have one.
std::vector<GateFunction> gate_functions(const NodeReader& node, RecurrentCell cell, std::int64_t directions) {
  const int each = functions_of(cell);
  const auto* given = node.attribute("activations");
  std::vector<std::string> names;
  if (given != nullptr) names.assign(given->strings().begin(), given->strings().end());
  if (names.empty())
    for (std::int64_t i = 0; i < directions * each; ++i)
      names.emplace_back(i % each == 0 && cell != RecurrentCell::rnn ? "Sigmoid" : "Tanh");
  if (std::ssize(names) != directions * each)
    node.fail("has {} activations; expected {}, {} for each direction", names.size(), directions * each, each);
  const auto numbers = [&](const char* name) {
    const auto* a = node.attribute(name);
    return a == nullptr ? std::vector<float>() : std::vector<float>(a->floats().begin(), a->floats().end());
  };
  const std::vector<float> alphas = numbers("activation_alpha"), betas = numbers("activation_beta");
  std::size_t alpha = 0, beta = 0;
  const auto next = [](const std::optional<double>& otherwise, const std::vector<float>& list, std::size_t& at) {
    if (!otherwise) return 0.0;
    return at < list.size() ? static_cast<double>(list[at++]) : *otherwise;
  };
  std::vector<GateFunction> functions;
  for (const std::string& name : names) {
    const FunctionRow& row = function_row(node, name);
    const double a = next(row.alpha, alphas, alpha);
    functions.push_back({row.kind, a, next(row.beta, betas, beta)});
  }
  return functions;
}

class Layer {
 public:
  Layer(const NodeReader& node, RecurrentCell cell) : node_(node), cell_(cell), x_(node.value(0)) {
    const std::int64_t layout = node.integer("layout", 0);
    if (layout != 0 && layout != 1) node.fail("layout is {}; expected 0 or 1", layout);
    batch_first_ = layout == 1;
    read_direction();
    read_weights();
    if (batch_first_) x_ = transposed(node, x_, {1, 0, 2});
    steps_ = x_.shape()[0], batch_ = x_.shape()[1];
    how_.cell = cell;
    how_.clip = node.real("clip", 0);
    if (!(how_.clip >= 0)) node.fail("clip is {}; expected 0 or more", how_.clip);
    how_.linear_before_reset = node.integer("linear_before_reset", 0) != 0;
    how_.input_forget = node.integer("input_forget", 0) != 0;
    how_.functions = gate_functions(node, cell, directions_);
  }

  void import() {
    read_biases();
    std::vector<NetworkValue> inputs{input_product(), transposed(node_, node_.value(2), {0, 2, 1})};
    const auto add = [&](bool& given, const std::optional<NetworkValue>& x) {
      given = x.has_value();
      if (x) inputs.push_back(*x);
    };
    add(how_.has_extra, extra_);
    add(how_.has_lengths, lengths());
    add(how_.has_h, initial(5));
    if (cell_ == RecurrentCell::lstm) add(how_.has_c, initial(6));
    give(node_.apply(how_, inputs));
  }

 private:
  void read_direction() {
    const std::string direction = node_.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      node_.fail("direction is '{}'; expected forward, reverse or bidirectional", direction);
    how_.reverse = direction == "reverse";
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
      node_.fail("W has shape {} and R {}; expected (D,{}·H,I) and (D,{}·H,H)", to_string(w), to_string(r),
                 gates_of(cell_), gates_of(cell_));
    hidden_ = r[2].value();
    if (hidden_ < 1 || hidden_ > most_hidden) node_.fail("the state has {} elements; expected 1 to 2^20", hidden_);
    if (node_.integer("hidden_size", hidden_) != hidden_)
      node_.fail("hidden_size is {}, and R has shape {}", node_.integer("hidden_size", hidden_), to_string(r));
    columns_ = gates_of(cell_) * hidden_;
    require(1, "W", {directions_, columns_, w[2]});
    require(2, "R", {directions_, columns_, hidden_});
    require(3, "B", {directions_, 2 * columns_});
    if (cell_ == RecurrentCell::lstm) require(7, "P", {directions_, 3 * hidden_});
  }
  NetworkValue part(NetworkValue x, int axis, std::int64_t begin, std::int64_t end) const {
    if (x.shape()[static_cast<std::size_t>(axis)] == Dim(end - begin)) return x;
    return node_.apply(operators::Slice{{begin}, {end}, {1}, {axis}}, {x});
  }
  NetworkValue added(NetworkValue x, NetworkValue y) const {
    return x.dtype() == DType::f32 ? node_.elementwise(Op::add, {x, y}) : node_.map(MapOp::add, {x, y});
  }

  // Biases that are added to the product with the input; a GRU's that the reset scales is an input of the steps
  void read_biases() {
    if (cell_ == RecurrentCell::lstm && node_.has(7)) extra_ = node_.value(7);
    if (!node_.has(3)) return;
    const NetworkValue b = node_.value(3);
    const NetworkValue of_input = part(b, 1, 0, columns_), of_state = part(b, 1, columns_, 2 * columns_);
    if (cell_ == RecurrentCell::gru && how_.linear_before_reset) {
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

  // Nothing if every row takes all steps
  std::optional<NetworkValue> lengths() const {
    if (!node_.has(4)) return std::nullopt;
    if (node_.is_integers(4)) {
      const std::vector<Dim> given = node_.integers(4).elements;
      if (std::all_of(given.begin(), given.end(), [&](const Dim& d) { return d == steps_; })) return std::nullopt;
    }
    const NetworkValue lengths = node_.value(4);
    if (lengths.shape().size() != 1 || !may_equal(lengths.shape()[0], batch_))
      node_.fail("sequence_lens has shape {}; expected ({})", to_string(lengths.shape()), to_string(batch_));
    return lengths;
  }

  // (T,N,D·G·H)
  NetworkValue input_product() const {
    const NetworkValue w = transposed(node_, node_.value(1), {2, 0, 1});
    const operators::Reshape flat{{w.shape()[0].value(), directions_ * columns_}, true};
    const NetworkValue y = matrix_product(node_, x_, node_.apply(flat, {w}));
    return bias_ ? added(y, *bias_) : y;
  }
  // (N,D·H)
  std::optional<NetworkValue> initial(int input) const {
    if (!node_.has(input)) return std::nullopt;
    const NetworkValue given = node_.value(input);
    const Shape expected = batch_first_ ? Shape{batch_, directions_, hidden_} : Shape{directions_, batch_, hidden_};
    const Shape shape = given.shape();
    if (!std::equal(shape.begin(), shape.end(), expected.begin(), expected.end(), may_equal))
      node_.fail("input '{}' has shape {}; expected {}", node_.proto().input(input), to_string(shape),
                 to_string(expected));
    return reshape_to(node_, batch_first_ ? given : transposed(node_, given, {1, 0, 2}),
                      {shape[batch_first_ ? 0 : 1], directions_ * hidden_});
  }

  // The outputs, which are parts of (S + T,N,D·H)
  void give(NetworkValue all) const {
    const int states = states_of(cell_);
    if (node_.wants(0)) {
      const NetworkValue y = node_.apply(operators::Slice{{states}, {largest_extent}, {1}, {0}}, {all});
      if (batch_first_)
        node_.result(reshape_to(node_, transposed(node_, y, {1, 0, 2}), {batch_, steps_, directions_, hidden_}));
      else if (directions_ == 1)
        node_.result(reshape_to(node_, y, {steps_, 1, batch_, hidden_}));
      else
        node_.result(transposed(node_, reshape_to(node_, y, {steps_, batch_, directions_, hidden_}), {0, 2, 1, 3}));
    }
    for (int state = 0; state < states; ++state) {
      if (!node_.wants(1 + state)) continue;
      const NetworkValue of_rows = reshape_to(node_, part(all, 0, state, state + 1), {batch_, directions_, hidden_});
      node_.result(batch_first_ ? of_rows : transposed(node_, of_rows, {1, 0, 2}), 1 + state);
    }
    if (!node_.wants(0) && !node_.wants(1) && !node_.wants(2)) node_.fail("has no output");
  }

  const NodeReader& node_;
  const RecurrentCell cell_;
  NetworkValue x_;
  Dim steps_, batch_;
  bool batch_first_ = false;
  std::int64_t directions_ = 1, hidden_ = 0, columns_ = 0;
  operators::Recurrence how_;
  std::optional<NetworkValue> bias_, extra_;
};

template <RecurrentCell cell>
void import_layer(const NodeReader& node) {
  Layer(node, cell).import();
}

constexpr OperatorRow recurrence_table[] = {{"GRU", 7, import_layer<RecurrentCell::gru>},
                                            {"LSTM", 7, import_layer<RecurrentCell::lstm>},
                                            {"RNN", 7, import_layer<RecurrentCell::rnn>}};

}  // namespace

std::span<const OperatorRow> recurrence_rows() { return recurrence_table; }

}  // namespace unisono::network::onnx_import
