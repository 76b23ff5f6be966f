#include "passes/fuse_operators.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ir/op_table.hpp"
#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

const Pattern x = any(0), y = any(1), z = any(2), c = number(3), d = number(4);

// ---- Conditions

// f32 holds `v`, so that as a constant it adds no rounding of its own
bool is_single(double v) { return std::isfinite(v) && static_cast<double>(static_cast<float>(v)) == v; }

double sum_of(const Match& m) { return m.number(3) + m.number(4); }
double product_of(const Match& m) { return m.number(3) * m.number(4); }
double inverse_of(const Match& m) { return 1 / m.number(3); }
bool sum_is_exact(const Match& m) {
  const double a = m.number(3), b = m.number(4), s = a + b;
  return is_single(a) && is_single(b) && is_single(s) && s - a == b && s - b == a;
}
bool product_is_exact(const Match& m) {
  const double a = m.number(3), b = m.number(4), p = a * b;  // exact in f64 if both are f32
  return is_single(a) && is_single(b) && is_single(p) && (p == 0 || std::abs(p) >= 0x1p-126);
}
bool inverse_is_normal(const Match& m) {
  const double r = std::abs(1 / m.number(3));
  return r >= 0x1p-126 && r <= 0x1p126;
}
bool divisor_is_coarser(const Match& m) {
  return !(m.node(1).axes == m.root_node().axes) && m.node(1).op != Op::constant;
}

// The value is never below 0 and never -0; NaN is allowed. Looks through so many operations only.
bool is_nonnegative(const Editor& g, ValueId id, int depth = 4) {
  const Node& v = g[id];
  if (depth == 0) return false;
  const auto input = [&](std::size_t i) { return is_nonnegative(g, v.inputs[i], depth - 1); };
  if (ir::info(v.op).nonnegative) return true;
  if (v.op == Op::constant) return v.attr.value > 0 || (v.attr.value == 0 && !std::signbit(v.attr.value));
  if (v.op == Op::mean || v.op == Op::sum) return input(0);
  return (v.op == Op::add || v.op == Op::mul) && input(0) && input(1);
}
bool base_is_nonnegative(const Match& m) { return is_nonnegative(m.graph(), m.value(0)); }

// Every user of p = sigmoid(x) is log(p), or 1 - p of which every user is a logarithm: all of them get their stable
// form, so that p itself is needed no more.
bool only_logarithms_read(const Editor& g, ValueId id, bool complement_allowed) {
  int readers = 0;
  for (const ValueId user : g.users(id)) {
    if (g.dead(user)) continue;
    ++readers;
    const Node& u = g[user];
    if (u.op == Op::log && u.dtype == g[id].dtype) continue;
    const bool complement = complement_allowed && u.op == Op::sub && u.inputs[1] == id && u.inputs[0] != id &&
                            g[u.inputs[0]].op == Op::constant && g[u.inputs[0]].attr.value == 1;
    if (!complement || u.dtype != g[id].dtype || !only_logarithms_read(g, user, false)) return false;
  }
  return readers == g.uses(id);  // no store reads it
}
bool sigmoid_is_for_logarithms(const Match& m) {
  const auto& log = m.root_node();
  ValueId p = log.inputs[0];
  if (m.graph()[p].op == Op::sub) p = m.graph()[p].inputs[1];
  return only_logarithms_read(m.graph(), p, true);
}

// ---- Attributes

Attributes slope(const Match& m) {
  Attributes a;
  a.alpha = m.number(3);
  return a;
}
Attributes unit_alpha(const Match&) {
  Attributes a;
  a.alpha = 1;
  return a;
}
Attributes line(const Match& m) {
  Attributes a;
  a.alpha = m.number(3);
  a.beta = m.number(4);
  return a;
}
Attributes bounds(double lower, double upper) {
  Attributes a;
  a.lower = lower;
  a.upper = upper;
  return a;
}
bool is_hardswish_line(const Match& m) {
  return std::abs(m.attributes(0).alpha - 1.0 / 6) <= 0x1p-26 && m.attributes(0).beta == 0.5;
}
bool is_0_1(const Match& m) { return m.attributes(0).lower == 0 && m.attributes(0).upper == 1; }
bool is_0_6(const Match& m) { return m.attributes(0).lower == 0 && m.attributes(0).upper == 6; }

// c is the lower bound, d the upper
Attributes clamp_c_d(const Match& m) { return bounds(m.number(3), m.number(4)); }
bool c_below_d(const Match& m) { return m.number(3) <= m.number(4); }
// the clamp of slot 0 after, or before, one more bound c
Attributes clamp_from_below(const Match& m) {
  const Attributes& a = m.attributes(0);
  return bounds(std::max(a.lower, m.number(3)), std::max(a.upper, m.number(3)));
}
Attributes clamp_from_above(const Match& m) {
  const Attributes& a = m.attributes(0);
  return bounds(std::min(a.lower, m.number(3)), std::min(a.upper, m.number(3)));
}
Attributes clamp_from_zero(const Match& m) {
  const Attributes& a = m.attributes(0);
  return bounds(std::max(a.lower, 0.0), std::max(a.upper, 0.0));
}
Attributes clamp_0_c(const Match& m) { return bounds(0, m.number(3)); }
bool c_is_number(const Match& m) { return !std::isnan(m.number(3)); }
bool c_is_not_negative(const Match& m) { return m.number(3) >= 0; }
double larger_of(const Match& m) { return std::max(m.number(3), m.number(4)); }
double smaller_of(const Match& m) { return std::min(m.number(3), m.number(4)); }
bool are_numbers(const Match& m) { return !std::isnan(m.number(3)) && !std::isnan(m.number(4)); }

// ---- Rows

std::vector<Row> arithmetic_rows() {
  using enum Dtypes;
  return {
      {"x + 0 -> x", x + 0, x, floats},
      {"(-x) - y -> -(x + y)", (-x) - y, -(x + y), floats},
      {"-(x - y) -> y - x", -(x - y), y - x, floats},
      {"(x + c) + d -> x + (c + d)", (x + c) + d, x + computed(sum_of), wide, sum_is_exact},
      {"(x*c)*d -> x*(c*d)", (x * c) * d, x * computed(product_of), wide, product_is_exact},
      {"1/sqrt(x) -> rsqrt(x)", 1 / sqrt(x), rsqrt(x)},
      {"reciprocal(sqrt(x)) -> rsqrt(x)", reciprocal(sqrt(x)), rsqrt(x)},
      {"sqrt(reciprocal(x)) -> rsqrt(x)", sqrt(reciprocal(x)), rsqrt(x), wide, base_is_nonnegative},
      {"x/sqrt(y) -> x*rsqrt(y)", x / sqrt(y), x * rsqrt(y)},
      {"pow(x, 2) -> square(x)", pow(x, exactly(2)), square(x)},
      {"pow(x, 3) -> square(x)*x", pow(x, exactly(3)), square(x) * x},
      {"pow(x, -1) -> reciprocal(x)", pow(x, exactly(-1)), reciprocal(x)},
      {"pow(x, 0.5) -> sqrt(x), x >= 0", pow(x, exactly(0.5)), sqrt(x), wide, base_is_nonnegative},
      {"pow(x, -0.5) -> rsqrt(x), x >= 0", pow(x, exactly(-0.5)), rsqrt(x), wide, base_is_nonnegative},
  };
}

std::vector<Row> division_rows() {  // after all rows in which a division is part of a pattern
  using enum Dtypes;
  return {
      {"1/x -> reciprocal(x)", 1 / x, reciprocal(x), floats},
      {"x/c -> x*(1/c)", x / c, x * computed(inverse_of), wide, inverse_is_normal},
      {"x/y -> x*reciprocal(y), y of coarser axes", x / y, x * reciprocal(y), wide, divisor_is_coarser},
  };
}

std::vector<Row> exponential_rows() {
  using enum Dtypes;
  const Pattern p = shared(sigmoid(x));
  return {
      {"1/(exp(-x) + 1) -> sigmoid(x)", 1 / (exp(-x) + 1), sigmoid(x)},
      {"reciprocal(exp(-x) + 1) -> sigmoid(x)", reciprocal(exp(-x) + 1), sigmoid(x)},
      {"1/(exp(x) + 1) -> sigmoid(-x)", 1 / (exp(x) + 1), sigmoid(-x)},
      {"reciprocal(exp(x) + 1) -> sigmoid(-x)", reciprocal(exp(x) + 1), sigmoid(-x)},
      {"exp(x)/(exp(x) + 1) -> sigmoid(x)", exp(x) / (exp(x) + 1), sigmoid(x)},
      {"(tanh(x*0.5) + 1)*0.5 -> sigmoid(x)", (tanh(x * 0.5) + 1) * 0.5, sigmoid(x)},
      {"x/(exp(-x) + 1) -> silu(x)", x / (exp(-x) + 1), silu(x)},
      {"x*sigmoid(x) -> silu(x)", x * sigmoid(x), silu(x)},
      {"log(exp(x) + 1) -> softplus(x)", log(exp(x) + 1), softplus(x)},
      {"log1p(exp(x)) -> softplus(x)", log1p(exp(x)), softplus(x)},
      {"log(sigmoid(x)) -> logsigmoid(x)", log(p), logsigmoid(x), wide, sigmoid_is_for_logarithms},
      {"log(1 - sigmoid(x)) -> -softplus(x)", log(shared(1 - p)), -softplus(x), wide, sigmoid_is_for_logarithms},
      {"log1p(-sigmoid(x)) -> -softplus(x)", log1p(-sigmoid(x)), -softplus(x)},
      {"log(x + 1) -> log1p(x)", log(x + 1), log1p(x)},
      {"softplus(-x) -> -logsigmoid(x)", softplus(-x), -logsigmoid(x), floats},
      {"logsigmoid(-x) -> -softplus(x)", logsigmoid(-x), -softplus(x), floats},
      {"x*tanh(softplus(x)) -> mish(x)", x * tanh(softplus(x)), mish(x)},
  };
}

// x·½·f in every grouping
std::vector<Pattern> half_products(const Pattern& f) { return {(x * 0.5) * f, (x * f) * 0.5, x * (f * 0.5)}; }

std::vector<Row> gelu_rows() {
  std::vector<Row> rows;
  const Pattern by_erf = erf(x * about(1 / std::numbers::sqrt2)) + 1;
  for (const Pattern& p : half_products(by_erf)) rows.push_back({"x*0.5*(erf(x/sqrt(2)) + 1) -> gelu(x)", p, gelu(x)});
  const Pattern k = about(std::sqrt(2 / std::numbers::pi)), a = about(0.044715);
  const Pattern cube = square(x) * x;
  std::vector<Pattern> arguments;
  for (const Pattern& cubic : {cube * a, square(x) * (x * a), (square(x) * a) * x, ((x * a) * x) * x})
    arguments.push_back((x + cubic) * k);
  const Pattern factored = square(x) * a + 1;
  for (const Pattern& p : {(x * factored) * k, (x * k) * factored, x * (factored * k)}) arguments.push_back(p);
  for (const Pattern& argument : arguments)
    for (const Pattern& p : half_products(tanh(argument) + 1))
      rows.push_back({"x*0.5*(tanh(sqrt(2/pi)*(x + 0.044715*x^3)) + 1) -> gelu_tanh(x)", p, gelu_tanh(x)});
  return rows;
}

std::vector<Row> select_rows() {
  const Pattern line = x * c, negative = operation(Op::add, {exp(x), exactly(-1)});
  std::vector<Row> rows;
  // how "x is positive" and "x is not" may be written; where a NaN falls through to the wrong branch, the row is left
  // out
  for (const Pattern& positive : {shared(greater(x, exactly(0))), shared(greater_equal(x, exactly(0)))}) {
    rows.push_back(
        {"select(x > 0, x, x*c) -> leaky_relu(x)", select(positive, x, line), with(slope, Op::leaky_relu, {x})});
    rows.push_back(
        {"select(x > 0, x, exp(x) - 1) -> elu(x)", select(positive, x, negative), with(unit_alpha, Op::elu, {x})});
    rows.push_back(
        {"select(x > 0, x, (exp(x) - 1)*c) -> elu(x)", select(positive, x, negative * c), with(slope, Op::elu, {x})});
    rows.push_back({"select(x > 0, x, -x) -> abs(x)", select(positive, x, -x), abs(x), Dtypes::floats});
  }
  for (const Pattern& other : {shared(less(x, exactly(0))), shared(less_equal(x, exactly(0)))}) {
    rows.push_back(
        {"select(x < 0, x*c, x) -> leaky_relu(x)", select(other, line, x), with(slope, Op::leaky_relu, {x})});
    rows.push_back(
        {"select(x < 0, exp(x) - 1, x) -> elu(x)", select(other, negative, x), with(unit_alpha, Op::elu, {x})});
    rows.push_back(
        {"select(x < 0, (exp(x) - 1)*c, x) -> elu(x)", select(other, negative * c, x), with(slope, Op::elu, {x})});
    rows.push_back({"select(x < 0, -x, x) -> abs(x)", select(other, -x, x), abs(x), Dtypes::floats});
    rows.push_back({"select(x < 0, 0, x) -> relu(x)", select(other, exactly(0), x), relu(x), Dtypes::floats});
  }
  return rows;
}

std::vector<Row> clamp_rows() {
  using enum Dtypes;
  const Pattern clamped = with_attributes(0, Op::clamp, {x});
  const Pattern c_to_d = with(clamp_c_d, Op::clamp, {x}), zero_to_c = with(clamp_0_c, Op::clamp, {x});
  const Pattern from_below = with(clamp_from_below, Op::clamp, {x}),
                from_above = with(clamp_from_above, Op::clamp, {x});
  const Pattern from_zero = with(clamp_from_zero, Op::clamp, {x});
  return {
      {"max(x, 0) -> relu(x)", max(x, exactly(0)), relu(x), floats},
      {"max(max(x, c), d) -> max(x, max(c, d))", max(max(x, c), d), max(x, computed(larger_of)), floats, are_numbers},
      {"min(min(x, c), d) -> min(x, min(c, d))", min(min(x, c), d), min(x, computed(smaller_of)), floats, are_numbers},
      {"min(max(x, c), d) -> clamp(x, c, d), c <= d", min(max(x, c), d), c_to_d, floats, c_below_d},
      {"max(min(x, d), c) -> clamp(x, c, d), c <= d", max(min(x, d), c), c_to_d, floats, c_below_d},
      {"min(relu(x), c) -> clamp(x, 0, c), c >= 0", min(relu(x), c), zero_to_c, floats, c_is_not_negative},
      {"relu(min(x, c)) -> clamp(x, 0, c), c >= 0", relu(min(x, c)), zero_to_c, floats, c_is_not_negative},
      {"max(clamp(x), c) -> clamp(x)", max(clamped, c), from_below, floats, c_is_number},
      {"min(clamp(x), c) -> clamp(x)", min(clamped, c), from_above, floats, c_is_number},
      {"relu(clamp(x)) -> clamp(x)", relu(clamped), from_zero, floats},
      {"relu(relu6(x)) -> relu6(x)", relu(relu6(x)), relu6(x), floats},
      {"relu6(relu(x)) -> relu6(x)", relu6(relu(x)), relu6(x), floats},
      {"clamp(x, 0, 6) -> relu6(x)", clamped, relu6(x), floats, is_0_6},
      {"clamp(x*c + d, 0, 1) -> hardsigmoid(x)", with_attributes(0, Op::clamp, {x * c + d}),
       with(line, Op::hardsigmoid, {x}), wide, is_0_1},
      {"x*hardsigmoid(x) -> hardswish(x)", x * with_attributes(0, Op::hardsigmoid, {x}), hardswish(x), wide,
       is_hardswish_line},
      {"(x*relu6(x + 3))/6 -> hardswish(x)", (x * relu6(x + 3)) * about(1.0 / 6), hardswish(x)},
      {"x*(relu6(x + 3)/6) -> hardswish(x)", x * (relu6(x + 3) * about(1.0 / 6)), hardswish(x)},
      {"(x/6)*relu6(x + 3) -> hardswish(x)", (x * about(1.0 / 6)) * relu6(x + 3), hardswish(x)},
  };
}

}  // namespace

const RowTable& fusion_rows() {
  static const RowTable table(
      {gelu_rows(), exponential_rows(), arithmetic_rows(), select_rows(), clamp_rows(), division_rows()});
  return table;
}

Graph fuse_operators(const Graph& graph) {
  Editor g(graph);
  apply(fusion_rows(), g);
  return std::move(g).finish();
}

}  // namespace unisono::passes
