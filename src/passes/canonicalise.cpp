#include "passes/canonicalise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "passes/editor.hpp"
#include "passes/exact_casts.hpp"

namespace unisono::passes {

namespace {

// x/c = x·(1/c) bit for bit if c is a power of two whose reciprocal is a normal number of every dtype
bool is_power_of_two(const Match& m) {
  int exponent = 0;
  return std::abs(std::frexp(m.number(3), &exponent)) == 0.5 && std::abs(exponent) <= 14;
}

// No NaN can be among them
bool compares_integers(const Match& m) {
  const auto integral = [](const Node& x) {
    return x.op == Op::constant ? !std::isnan(x.attr.value) : !is_float(x.dtype);
  };
  return integral(m.node(0)) && integral(m.node(1));
}
bool no_constants(const Match& m) { return m.node(0).op != Op::constant && m.node(1).op != Op::constant; }
bool is_integral(const Match& m) { return !is_float(m.dtype()); }

double negated(const Match& m) { return -m.number(3); }
double inverted(const Match& m) { return 1 / m.number(3); }

// The clamp of slot 1 after that of slot 0
Attributes both_clamps(const Match& m) {
  const Attributes &inner = m.attributes(0), &outer = m.attributes(1);
  Attributes a;
  a.lower = std::clamp(inner.lower, outer.lower, outer.upper);
  a.upper = std::clamp(inner.upper, outer.lower, outer.upper);
  return a;
}

// Ranges that do not meet give one value, whatever x is; a clamp to [0, 0] alone would let -0 through
bool clamps_meet_or_miss_zero(const Match& m) {
  const Attributes &inner = m.attributes(0), &outer = m.attributes(1);
  const bool meet = inner.lower <= outer.upper && outer.lower <= inner.upper;
  return meet || both_clamps(m).lower != 0;
}

std::vector<Row> sign_rows() {
  const Pattern x = any(0), y = any(1), c = number(3);
  const Pattern minus_x = shared(-x), minus_y = shared(-y);  // one sign less here, whoever else reads them
  using enum Dtypes;
  return {
      {"-(-x) -> x", -minus_x, x, Dtypes::any},
      {"(-x)*(-y) -> x*y", minus_x * minus_y, x * y, Dtypes::any},
      {"(-x)*c -> x*(-c)", minus_x * c, x * computed(negated), Dtypes::any},
      {"-(x*c) -> x*(-c)", -(x * c), x * computed(negated), Dtypes::any},
      {"(-x)*y -> -(x*y)", (-x) * y, -(x * y), Dtypes::any},
      {"(-x)/(-y) -> x/y", minus_x / minus_y, x / y, floats},
      {"-(x/c) -> x/(-c)", -(x / c), x / computed(negated), floats},
      {"-(c/x) -> (-c)/x", -(c / x), computed(negated) / x, floats},
      {"(-x)/y -> -(x/y)", (-x) / y, -(x / y), floats},
      {"x/(-y) -> -(x/y)", x / (-y), -(x / y), floats},
      {"x - 0 -> x", x - 0, x, Dtypes::any},
      {"x - c -> x + (-c)", x - c, x + computed(negated), Dtypes::any},
      {"x + (-y) -> x - y", x + minus_y, x - y, Dtypes::any},
      {"x - (-y) -> x + y", x - minus_y, x + y, Dtypes::any},
      {"abs(-x) -> abs(x)", abs(minus_x), abs(x), Dtypes::any},
      {"square(-x) -> square(x)", square(minus_x), square(x), Dtypes::any},
      {"cos(-x) -> cos(x)", cos(minus_x), cos(x), floats},
      {"x*(-1) -> -x", x * -1, -x, Dtypes::any},
  };
}

std::vector<Row> identity_rows() {
  const Pattern x = any(0), y = any(1), c = number(3), condition = any(2);
  using enum Dtypes;
  std::vector<Row> rows{
      {"x*1 -> x", x * 1, x, Dtypes::any},
      {"x/1 -> x", x / 1, x, floats},
      {"x + (-0) -> x", x + -0.0, x, floats},
      {"x + 0 -> x, integers", x + 0, x, Dtypes::any, is_integral},
      {"pow(x, 1) -> x", pow(x, exactly(1)), x, floats},
      {"x*x -> square(x)", x * x, square(x), Dtypes::any},
      {"x/2^k -> x*2^-k", x / c, x * computed(inverted), floats, is_power_of_two},
      {"min(x, x) -> x", min(x, x), x, Dtypes::any},
      {"max(x, x) -> x", max(x, x), x, Dtypes::any},
      {"select(c, x, x) -> x", select(condition, x, x), x, Dtypes::any},
      {"select(!c, x, y) -> select(c, y, x)", select(logical_not(condition), x, y), select(condition, y, x),
       Dtypes::any},
      {"clamp(clamp(x)) -> clamp(x)", with_attributes(1, Op::clamp, {with_attributes(0, Op::clamp, {x})}),
       with(both_clamps, Op::clamp, {x}), floats, clamps_meet_or_miss_zero},
      {"relu6(relu6(x)) -> relu6(x)", relu6(relu6(x)), relu6(x), floats},
  };
  for (const Op op : {Op::abs, Op::relu})  // which do nothing to what has no sign
    for (const Op inner : {Op::abs, Op::relu, Op::exp, Op::square, Op::sigmoid})
      rows.push_back({"abs(x) -> x and relu(x) -> x, of abs, relu, exp, square, sigmoid",
                      operation(op, {shared(with_attributes(0, inner, {x}))}), with_attributes(0, inner, {x}), floats});
  return rows;
}

std::vector<Row> truth_rows() {
  const Pattern x = any(0), y = any(1), c = number(3);
  constexpr auto everything = Dtypes::any;
  return {
      {"c < x -> x > c", less(c, x), greater(x, c), everything},
      {"c <= x -> x >= c", less_equal(c, x), greater_equal(x, c), everything},
      {"c > x -> x < c", greater(c, x), less(x, c), everything},
      {"c >= x -> x <= c", greater_equal(c, x), less_equal(x, c), everything},
      {"x > y -> y < x", greater(x, y), less(y, x), everything, no_constants},
      {"x >= y -> y <= x", greater_equal(x, y), less_equal(y, x), everything, no_constants},
      {"!!x -> x", logical_not(logical_not(x)), x, everything},
      {"!(x == y) -> x != y", logical_not(equal(x, y)), not_equal(x, y), everything},
      {"!(x != y) -> x == y", logical_not(not_equal(x, y)), equal(x, y), everything},
      // not for floats: with a NaN both sides are false
      {"!(x < y) -> x >= y, integers", logical_not(less(x, y)), greater_equal(x, y), everything, compares_integers},
      {"!(x <= y) -> x > y, integers", logical_not(less_equal(x, y)), greater(x, y), everything, compares_integers},
      {"!(x > y) -> x <= y, integers", logical_not(greater(x, y)), less_equal(x, y), everything, compares_integers},
      {"!(x >= y) -> x < y, integers", logical_not(greater_equal(x, y)), less(x, y), everything, compares_integers},
      {"x & x -> x", logical_and(x, x), x, everything},
      {"x | x -> x", logical_or(x, x), x, everything},
  };
}

// How finely a value varies: [m,n] before [b,n] before [n] before a scalar
int fineness(const Axes& a) { return 3 * static_cast<int>(a.row) + static_cast<int>(a.col); }

// Constants last, before them the coarser values, else by id. Of min and max only a constant other than zero moves:
// they tell 0 from -0 by position.
void order_operands(Editor& g) {
  for (ValueId id = 0; id < g.size(); ++id) {
    if (g.dead(id)) continue;
    const Node& x = g[id];
    auto in = x.inputs;
    const auto before = [&](ValueId a, ValueId b) {
      const bool ca = g[a].op == Op::constant, cb = g[b].op == Op::constant;
      if (ca != cb) return cb;
      const int fa = fineness(g[a].axes), fb = fineness(g[b].axes);
      return fa != fb ? fa > fb : a < b;
    };
    const bool sorts = operands_commute(x.op) && before(in[1], in[0]);
    const bool moves_constant = (x.op == Op::min || x.op == Op::max) && g[in[0]].op == Op::constant &&
                                g[in[1]].op != Op::constant && g[in[0]].attr.value != 0;
    if (sorts || moves_constant) std::swap(in[0], in[1]);
    g.set_inputs(id, std::move(in));
  }
}

}  // namespace

const RowTable& canonical_rows() {
  static const RowTable table({sign_rows(), identity_rows(), truth_rows()});
  return table;
}

Graph canonicalise(const Graph& graph) {
  Editor g(graph);
  for (bool changed = true; changed;) {
    changed = apply(canonical_rows(), g);
    changed |= drop_exact_casts(g);
  }
  Editor sorted(std::move(g).finish());  // ids in the order of the graph again
  order_operands(sorted);
  return std::move(sorted).finish();
}

}  // namespace unisono::passes
