/// Evaluates a graph node by node.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "ir/node_kinds.hpp"
#include "ir/op_table.hpp"
#include "reference/nodes.hpp"
#include "reference/operands.hpp"
#include "reference/reference.hpp"
#include "reference/resampled.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

class Evaluation {
 public:
  Evaluation(const Graph& graph, const Contraction& contraction, const Values& acc, const Values& acc1,
             const Arguments& arguments, const ErrorModel& model)
      : graph_(graph),
        contraction_(contraction),
        acc_(acc),
        acc1_(acc1),
        arguments_(arguments),
        model_(model),
        space_{extents(contraction)},
        uses_(graph.nodes.size(), 0),
        terms_(graph.nodes.size()) {
    if (model.kept_roundoff == 0 || model.kept_centred) return;
    waits_ = ir::read_behind_reductions(graph);
    late_ = ir::depending(graph, ir::over_rows);
  }

  std::map<std::string, Values> run();

 private:
  void count_uses();
  Values stored_value(const Store& s) const;
  void compute(ValueId id);
  Term compute_leaf(const Node& node);
  Term accumulator(const Values& acc) const;
  void compute_node(const Node& node, Term& out);
  void widen(const Node& node, Term& out) const;
  const Node* mean_of_difference(const Node& node) const;
  const UserFunction& function_of(const Node& node) const;
  void call(const Node& node, Term* out);
  Inputs convert_inputs(const Node& node);
  const Term* waited(const Term& x, Term& scratch) const;
  const Term* convert(const Term& x, DType arithmetic, Term& scratch) const;
  DType arithmetic_dtype(const Node& node) const;
  void release_inputs(const Node& node);

  const Graph& graph_;
  const Contraction& contraction_;
  const Values &acc_, &acc1_;
  const Arguments& arguments_;
  const ErrorModel& model_;
  Space space_;
  std::vector<std::uint32_t> uses_;  // readers not yet served; 0 from the start: not needed
  std::vector<Term> terms_;
  std::vector<bool> waits_, late_;  // ErrorModel::kept_centred is false: what waits, and what is known behind it
  std::array<Term, 16> scratch_;
  std::array<const Term*, 16> inputs_{};
};

void Evaluation::count_uses() {
  for (const Store& s : graph_.stores) ++uses_[s.value];
  for (const ValueId e : graph_.effects) ++uses_[e];
  for (auto id = graph_.nodes.size(); id-- > 0;)
    if (uses_[id] > 0)
      for (const ValueId in : graph_.nodes[id].inputs) ++uses_[in];
}

std::map<std::string, Values> Evaluation::run() {
  count_uses();
  const auto is_effect = [&](ValueId id) {
    return std::find(graph_.effects.begin(), graph_.effects.end(), id) != graph_.effects.end();
  };
  for (ValueId id = 0; id < graph_.nodes.size(); ++id)
    if (uses_[id] > 0 && (graph_[id].op != Op::call || !is_effect(id))) compute(id);
  for (const ValueId id : graph_.effects) {
    convert_inputs(graph_[id]);
    call(graph_[id], nullptr);
  }
  std::map<std::string, Values> results;
  for (const Store& s : graph_.stores) results[s.name] = stored_value(s);
  return results;
}

Values Evaluation::stored_value(const Store& s) const {
  const Term& t = terms_[s.value];
  Values r{.axes = t.axes, .value = {t.v, t.v + t.size()}, .bound = {t.e, t.e + t.size()}};
  return s.form == StoreForm::whole ? r : resampled(r, s.form, extents(contraction_));
}

void Evaluation::compute(ValueId id) {
  const Node& node = graph_[id];
  if (ir::info(node.op).op_class == ir::OpClass::leaf) {
    terms_[id] = compute_leaf(node);
    return;
  }
  Term out(space_, node.axes, node.dtype);
  compute_node(node, out);
  if (model_.coarser && !node.inputs.empty()) widen(node, out);
  round_term(out);
  terms_[id] = std::move(out);
  release_inputs(node);
}

// Adds what the model's coarser functions are off to the bounds of an elementwise operation
void Evaluation::widen(const Node& node, Term& out) const {
  const auto op_class = ir::info(node.op).op_class;
  const std::size_t count = node.inputs.size();
  if ((op_class != ir::OpClass::unary && op_class != ir::OpClass::binary && op_class != ir::OpClass::ternary) ||
      count > 3)
    return;
  Term nothing(space_, axes::scalar, DType::f32);
  nothing.values()[0] = nothing.bounds()[0] = 0;
  std::array<const Term*, 3> in{&nothing, &nothing, &nothing};
  for (std::size_t i = 0; i < count; ++i) in[i] = &terms_[node.inputs[i]];
  for_each_stretch<3>(out, in, space_, [&](std::int64_t first, std::int64_t length, const std::array<Lane, 3>& lane) {
    for (std::int64_t i = 0; i < length; ++i) {
      const std::array<double, 3> x{lane[0][i].v, lane[1][i].v, lane[2][i].v};
      out.bounds()[first + i] += model_.coarser(node, std::span(x.data(), count), out.v[first + i]);
    }
  });
}

void Evaluation::release_inputs(const Node& node) {
  for (const ValueId in : node.inputs)
    if (--uses_[in] == 0) terms_[in] = Term();
}

Term Evaluation::compute_leaf(const Node& node) {
  switch (node.op) {
    case Op::operand: return load_operand(node, arguments_, contraction_, space_);
    case Op::index: return load_index(node, space_);
    case Op::extent: return load_extent(node, space_);
    case Op::constant: {
      Term t(space_, axes::scalar, node.dtype);
      t.constant = true;
      t.values()[0] = node.attr.value;
      t.bounds()[0] = Arithmetic(DType::f32, model_).representation(node.attr.value);
      return t;
    }
    case Op::acc: return accumulator(acc_);
    case Op::acc1: return accumulator(acc1_);
    default: throw InternalError(fmt::format("{} is not a leaf", to_string(node.op)));
  }
}

Term Evaluation::accumulator(const Values& acc) const {
  Term t(space_, axes::mn, DType::f32);
  if (std::ssize(acc.value) != t.size() || (!acc.bound.empty() && acc.bound.size() != acc.value.size()))
    throw UserError(fmt::format("the accumulator was given {} values and {} bounds; expected {} of {}",
                                acc.value.size(), acc.bound.size(), t.size(), to_string(contraction_)));
  std::copy(acc.value.begin(), acc.value.end(), t.values());
  if (acc.bound.empty()) std::fill_n(t.bounds(), t.size(), 0.0);
  std::copy(acc.bound.begin(), acc.bound.end(), t.bounds());
  return t;
}

bool is_i32(double v) { return v == std::trunc(v) && v >= -0x1p31 && v < 0x1p31; }

// The precision in which a node meets its inputs. That of a comparison is the inputs' own: f64 if one is, integers
// among themselves, else f32.
DType Evaluation::arithmetic_dtype(const Node& node) const {
  const auto op_class = ir::info(node.op).op_class;
  if (op_class != ir::OpClass::comparison && node.op != Op::one_hot) return node.dtype;
  bool integral = true;
  for (const ValueId in : node.inputs) {
    const Node& x = graph_[in];
    if (!terms_[in].constant && x.dtype == DType::f64) return DType::f64;
    integral = integral && (terms_[in].constant ? is_i32(x.attr.value) : !is_float(x.dtype));
  }
  return integral ? DType::i32 : DType::f32;
}

// What a node of dtype `arithmetic` reads: constants take its dtype, integers and f64 are rounded to f32
const Term* Evaluation::convert(const Term& x, DType arithmetic, Term& scratch) const {
  const bool to_float = arithmetic != DType::f64 && is_float(arithmetic);
  if (x.constant) {
    if (to_float) return &x;  // its bound says so already
    scratch = Term(space_, x.axes, arithmetic);
    scratch.values()[0] = x.v[0];
    scratch.bounds()[0] = 0;
    return &scratch;
  }
  if (!to_float || (x.dtype != DType::i32 && x.dtype != DType::f64)) return &x;
  const Arithmetic a(DType::f32, model_);
  const auto fits = [&](double v) { return a.representation(v) == 0; };
  if (std::all_of(x.v, x.v + x.size(), fits)) return &x;
  scratch = Term(space_, x.axes, DType::f32);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    scratch.values()[i] = x.v[i];
    scratch.bounds()[i] = x.e[i] + a.representation(x.v[i]);
  }
  return &scratch;
}

Inputs Evaluation::convert_inputs(const Node& node) {
  const DType arithmetic = arithmetic_dtype(node);
  const std::size_t count = node.inputs.size();
  if (count > inputs_.size()) throw InternalError(fmt::format("{} has {} inputs", to_string(node.op), count));
  for (std::size_t i = 0; i < count; ++i) {
    const Term& x = terms_[node.inputs[i]];
    if (node.op == Op::call && function_of(node).parameter(i) != ParameterType::float32) {
      inputs_[i] = &x;  // an integer, exactly
      continue;
    }
    inputs_[i] = convert(x, node.op == Op::cast || x.dtype == DType::boolean ? x.dtype : arithmetic, scratch_[i]);
    if (!waits_.empty() && waits_[node.inputs[i]] && late_[static_cast<std::size_t>(&node - graph_.nodes.data())])
      inputs_[i] = waited(*inputs_[i], scratch_[i]);
  }
  return {inputs_.data(), count};
}

// A value that was rounded while it waited for reductions
const Term* Evaluation::waited(const Term& x, Term& scratch) const {
  Term rounded(space_, x.axes, x.dtype);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    rounded.values()[i] = x.v[i];
    rounded.bounds()[i] = x.e[i] + model_.kept_roundoff * (std::abs(x.v[i]) + x.e[i]);
  }
  scratch = std::move(rounded);
  return &scratch;
}

// The mean of x − mean(x), with which a normalisation begins; null of any other node
const Node* Evaluation::mean_of_difference(const Node& node) const {
  if (node.op != Op::sub) return nullptr;
  const Node& mean = graph_[node.inputs[1]];
  return mean.op == Op::mean && mean.inputs[0] == node.inputs[0] ? &mean : nullptr;
}

void Evaluation::compute_node(const Node& node, Term& out) {
  const Inputs in = convert_inputs(node);
  const bool integral = node.dtype == DType::i32 && node.op != Op::cast && node.op != Op::select;
  switch (ir::info(node.op).op_class) {
    case ir::OpClass::unary:
      if (integral) return evaluate_integer(node.op, in, out, space_);
      if (node.op == Op::cast) return evaluate_cast(*in[0], out, model_);
      return evaluate_unary(node, *in[0], out, model_);
    case ir::OpClass::binary:
    case ir::OpClass::ternary:
      if (integral) return evaluate_integer(node.op, in, out, space_);
      evaluate_elementwise(node.op, in, out, space_, model_);
      if (const Node* mean = mean_of_difference(node)) add_kept_errors(*in[0], mean->attr.domain, out, space_, model_);
      return;
    case ir::OpClass::comparison:
    case ir::OpClass::logical: {
      if (node.op == Op::logical_not) return evaluate_unary(node, *in[0], out, model_);
      return evaluate_elementwise(node.op, in, out, space_, model_);
    }
    case ir::OpClass::reduction: return evaluate_reduction(node, *in[0], out, space_, model_);
    case ir::OpClass::normalisation: return evaluate_normalisation(node, in, out, space_, model_);
    case ir::OpClass::softmax: return evaluate_softmax(node, *in[0], out, space_, model_);
    case ir::OpClass::call: return call(node, &out);
    case ir::OpClass::leaf: break;
  }
  throw InternalError(fmt::format("the reference cannot evaluate {}", to_string(node.op)));
}

// A user function at one element. How an error of its inputs comes out is measured at the ends of their intervals, and
// doubled.
double inherited_error(const UserFunction& f, const std::array<Lane, 16>& lane, std::int64_t i, double v,
                       std::span<double> x) {
  double inherited = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const V p = lane[k][i];
    if (p.e == 0) continue;
    x[k] = p.v + p.e;
    const double above = std::abs(f.cpu(x) - v);
    x[k] = p.v - p.e;
    const double below = std::abs(f.cpu(x) - v);
    x[k] = p.v;
    inherited += p.e < infinity ? 2 * std::max(above, below) : infinity;
  }
  return inherited;
}

const UserFunction& Evaluation::function_of(const Node& node) const {
  const auto found = graph_.functions.find(node.attr.name);
  if (found == graph_.functions.end() || !found->second->cpu)
    throw UserError(
        fmt::format("function {} has no CPU callable (UserFunction::cpu), which the reference needs", node.attr.name));
  const UserFunction& f = *found->second;
  if (std::ssize(node.inputs) != f.input_count())
    throw UserError(
        fmt::format("function {} is called with {} inputs; it takes {}", f.name, node.inputs.size(), f.input_count()));
  return f;
}

// Calls a user function for each element, in row-major order
void Evaluation::call(const Node& node, Term* out) {
  const UserFunction& f = function_of(node);
  const std::size_t count = node.inputs.size();
  Term shape;
  if (out == nullptr) shape = Term(space_, node.axes, node.dtype);
  Term zero(space_, axes::scalar, DType::f32);
  zero.values()[0] = zero.bounds()[0] = 0;
  std::array<const Term*, 16> in{};
  in.fill(&zero);
  std::copy_n(inputs_.begin(), count, in.begin());
  const Arithmetic a(DType::f32, model_);
  std::array<double, 16> x{};
  const std::span<double> arguments(x.data(), count);
  for_each_stretch<16>(out != nullptr ? *out : shape, in, space_,
                       [&](std::int64_t first, std::int64_t length, const std::array<Lane, 16>& lane) {
                         for (std::int64_t i = 0; i < length; ++i) {
                           for (std::size_t k = 0; k < count; ++k)
                             x[k] = f.parameter(k) == ParameterType::float32 ? lane[k][i].v : std::trunc(lane[k][i].v);
                           const double v = f.cpu(arguments);
                           if (out == nullptr) continue;
                           const V y = a.function(v, inherited_error(f, lane, i, v, arguments));
                           out->values()[first + i] = y.v;
                           out->bounds()[first + i] = std::isnan(y.e) ? infinity : y.e;
                         }
                       });
}

}  // namespace

std::map<std::string, Values> evaluate(const Graph& graph, const Contraction& contraction, const Values& acc,
                                       const Arguments& arguments, const ErrorModel& model) {
  return evaluate(graph, contraction, acc, {}, arguments, model);
}

std::map<std::string, Values> evaluate(const Graph& graph, const Contraction& contraction, const Values& acc,
                                       const Values& acc1, const Arguments& arguments, const ErrorModel& model) {
  return Evaluation(graph, contraction, acc, acc1, arguments, model).run();
}

std::map<std::string, Values> run(const Contraction& contraction, const Graph& graph, const Arguments& arguments,
                                  const ErrorModel& model) {
  const ConstTensorView& a = arguments.a(contraction);
  const Values acc = contract(contraction, a, arguments.b(contraction), model);
  if (product_count(contraction) == 1) return evaluate(graph, contraction, acc, arguments, model);
  return evaluate(graph, contraction, acc, contract(contraction, a, arguments.right1, model), arguments, model);
}

}  // namespace unisono::reference
