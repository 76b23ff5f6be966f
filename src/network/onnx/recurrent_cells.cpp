#include "network/onnx/recurrent_cells.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

namespace unisono::network::onnx_import {

namespace {

using Kind = GateFunction::Kind;

struct FunctionRow {
  std::string_view name;  // in lower case
  Kind kind;
  std::optional<double> alpha, beta;  // the default of one that it has
};
constexpr std::array activation_table{FunctionRow{"affine", Kind::affine, 1, 0},
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
  for (const FunctionRow& row : activation_table)
    if (row.name == lower) return row;
  const bool word = name.size() < 64 && std::all_of(name.begin(), name.end(),
                                                    [](char c) { return std::isalnum(static_cast<unsigned char>(c)); });
  node.fail(
      "activation '{}' is unknown; expected Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, "
      "Softsign, Tanh or ThresholdedRelu",
      word ? name : "…");
}

// Arithmetic on f32 that fuses, and on f64
class Terms {
 public:
  explicit Terms(const NodeReader& node) : node_(node) {}

  NetworkValue of(Op op, MapOp other, NetworkValue x) const {
    return is_f32(x) ? node_.elementwise(op, {x}) : node_.map(other, {x});
  }
  NetworkValue of(Op op, MapOp other, NetworkValue x, NetworkValue y) const {
    return is_f32(x) ? node_.elementwise(op, {x, y}) : node_.map(other, {x, y});
  }
  NetworkValue with(Op op, NetworkValue x, double alpha) const {
    Attributes a;
    a.alpha = alpha;
    return node_.apply(operators::Elementwise{.op = op, .attr = std::move(a)}, {x});
  }
  NetworkValue number(NetworkValue like, double x) const { return node_.number_like(like, x); }
  NetworkValue sum(NetworkValue x, NetworkValue y) const { return of(Op::add, MapOp::add, x, y); }
  NetworkValue product(NetworkValue x, NetworkValue y) const { return of(Op::mul, MapOp::mul, x, y); }
  NetworkValue tanh(NetworkValue x) const { return of(Op::tanh, MapOp::tanh, x); }
  NetworkValue scaled(NetworkValue x, double factor) const { return product(x, number(x, factor)); }
  NetworkValue one_less(NetworkValue x) const { return of(Op::sub, MapOp::sub, number(x, 1), x); }
  NetworkValue within(NetworkValue x, double lower, double upper) const {
    if (is_f32(x)) {
      Attributes a;
      a.lower = lower, a.upper = upper;
      return node_.apply(operators::Elementwise{.op = Op::clamp, .attr = std::move(a)}, {x});
    }
    return node_.map(MapOp::min, {node_.map(MapOp::max, {x, number(x, lower)}), number(x, upper)});
  }
  NetworkValue exp(NetworkValue x) const { return of(Op::exp, MapOp::exp, x); }
  // below(x) where x < 0
  NetworkValue bent(NetworkValue x, NetworkValue below) const {
    return node_.map(MapOp::select, {node_.map(MapOp::less, {x, number(x, 0)}), below, x});
  }
  static bool is_f32(NetworkValue x) { return x.dtype() == DType::f32; }

  NetworkValue function(const GateFunction& f, NetworkValue x) const {
    const bool f32 = is_f32(x);
    switch (f.kind) {
      case Kind::affine: return sum(scaled(x, f.alpha), number(x, f.beta));
      case Kind::elu:
        return f32 ? with(Op::elu, x, f.alpha)
                   : bent(x, scaled(node_.map(MapOp::sub, {exp(x), number(x, 1)}), f.alpha));
      case Kind::hard_sigmoid: return within(sum(scaled(x, f.alpha), number(x, f.beta)), 0, 1);
      case Kind::leaky_relu: return f32 ? with(Op::leaky_relu, x, f.alpha) : bent(x, scaled(x, f.alpha));
      case Kind::relu: return f32 ? node_.elementwise(Op::relu, {x}) : node_.map(MapOp::max, {x, number(x, 0)});
      case Kind::scaled_tanh: return scaled(tanh(scaled(x, f.beta)), f.alpha);
      case Kind::sigmoid:
        return f32 ? node_.elementwise(Op::sigmoid, {x})
                   : node_.map(MapOp::div, {number(x, 1), sum(exp(node_.map(MapOp::neg, {x})), number(x, 1))});
      case Kind::softplus:
        if (f32) return node_.elementwise(Op::softplus, {x});
        return sum(
            node_.map(MapOp::max, {x, number(x, 0)}),
            node_.map(MapOp::log, {sum(exp(node_.map(MapOp::neg, {node_.map(MapOp::abs, {x})})), number(x, 1))}));
      case Kind::softsign: return of(Op::div, MapOp::div, x, sum(of(Op::abs, MapOp::abs, x), number(x, 1)));
      case Kind::tanh: return tanh(x);
      case Kind::thresholded_relu:
        return node_.map(MapOp::select, {node_.map(MapOp::greater, {x, number(x, f.alpha)}), x, number(x, 0)});
    }
    return x;
  }

 private:
  const NodeReader& node_;
};

class Step {
 public:
  Step(const Recurrence& r, NetworkValue input, const RecurrentState& before)
      : r_(r), terms_(r.node), input_(input), before_(before) {}

  RecurrentState rnn() const { return {function(0, sums(0, 1)), std::nullopt}; }

  RecurrentState lstm() const {
    const NetworkValue all = sums(0, 4), in = function(0, seen(gate(all, 0), 0, before_.c));
    const NetworkValue candidate = terms_.product(in, function(1, gate(all, 3)));
    NetworkValue c = candidate;
    if (before_.c) {
      const NetworkValue forget = r_.input_forget ? terms_.one_less(in) : function(0, seen(gate(all, 2), 2, before_.c));
      c = terms_.sum(terms_.product(forget, *before_.c), candidate);
    }
    const NetworkValue out = function(0, seen(gate(all, 1), 1, c));
    return {terms_.product(out, terms_.function(r_.functions[2], c)), c};
  }

  RecurrentState gru() const {
    const NetworkValue both = function(0, sums(0, 2)), z = gate(both, 0);
    NetworkValue own = gate(input_, 2);
    if (r_.linear_before_reset) {
      std::optional<NetworkValue> inner;
      if (before_.h) inner = multiplied(*before_.h, 2, 3);
      if (r_.extra) inner = inner ? terms_.sum(*inner, *r_.extra) : *r_.extra;
      if (inner) own = terms_.sum(own, terms_.product(gate(both, 1), *inner));
    } else if (before_.h) {
      own = terms_.sum(multiplied(terms_.product(gate(both, 1), *before_.h), 2, 3), own);
    }
    const NetworkValue h = terms_.product(terms_.one_less(z), function(1, own));
    return {before_.h ? terms_.sum(h, terms_.product(z, *before_.h)) : h, std::nullopt};
  }

 private:
  NetworkValue columns(NetworkValue x, std::int64_t first, std::int64_t last) const {
    if (x.shape().back() == Dim((last - first) * r_.hidden)) return x;
    return r_.node.apply(operators::Slice{{first * r_.hidden}, {last * r_.hidden}, {1}, {1}}, {x});
  }
  NetworkValue gate(NetworkValue all, std::int64_t i) const { return columns(all, i, i + 1); }
  NetworkValue multiplied(NetworkValue h, std::int64_t first, std::int64_t last) const {
    return matrix_product(r_.node, h, columns(r_.weights, first, last));
  }
  // What enters these gates
  NetworkValue sums(std::int64_t first, std::int64_t last) const {
    const NetworkValue x = columns(input_, first, last);
    return before_.h ? terms_.sum(multiplied(*before_.h, first, last), x) : x;
  }
  // A gate with its peephole
  NetworkValue seen(NetworkValue x, std::int64_t peephole, const std::optional<NetworkValue>& c) const {
    if (!r_.extra || !c) return x;
    return terms_.sum(x, terms_.product(gate(*r_.extra, peephole), *c));
  }
  NetworkValue function(std::size_t i, NetworkValue x) const {
    return terms_.function(r_.functions[i], r_.clip > 0 ? terms_.within(x, -r_.clip, r_.clip) : x);
  }

  const Recurrence& r_;
  Terms terms_;
  NetworkValue input_;
  const RecurrentState& before_;
};

}  // namespace

std::vector<GateFunction> gate_functions(const NodeReader& node, const Cell& cell, std::size_t directions) {
  const auto* given = node.attribute("activations");
  std::vector<std::string> names;
  if (given != nullptr) names.assign(given->strings().begin(), given->strings().end());
  if (names.empty())
    for (std::size_t i = 0; i < directions * cell.functions; ++i)
      names.emplace_back(i % cell.functions == 0 && cell.kind != CellKind::rnn ? "Sigmoid" : "Tanh");
  if (names.size() != directions * cell.functions)
    node.fail("has {} activations; expected {}, {} for each direction", names.size(), directions * cell.functions,
              cell.functions);
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

RecurrentState next_state(const Recurrence& r, NetworkValue input, const RecurrentState& before) {
  const Step step(r, input, before);
  switch (r.cell.kind) {
    case CellKind::rnn: return step.rnn();
    case CellKind::gru: return step.gru();
    case CellKind::lstm: return step.lstm();
  }
  return {};
}

}  // namespace unisono::network::onnx_import
