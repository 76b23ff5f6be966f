#include <fmt/format.h>

#include <cmath>

#include "ir/store_forms.hpp"
#include "reference/nodes.hpp"
#include "reference/operands.hpp"
#include "reference/strided.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

std::vector<std::int64_t> shape_of(const Axes& a, const Contraction& contraction) {
  if (a == axes::mn) return shape_mn(contraction);
  const Space space{extents(contraction)};
  std::vector<std::int64_t> shape;
  if (a.row != RowAxis::none) shape.push_back(space.rows(a));
  if (a.col != ColAxis::none) shape.push_back(space.cols(a));
  return shape;
}

std::vector<std::int64_t> shape_of(const Node& operand, const Contraction& contraction) {
  const RowCoordinates rows = operand.attr.rows;
  if (rows == RowCoordinates::all) return shape_of(operand.axes, contraction);
  const Extents e = extents(contraction);
  std::vector<std::int64_t> shape;
  if (rows != RowCoordinates::w) shape.push_back(e.height);
  if (rows != RowCoordinates::h) shape.push_back(e.width);
  if (operand.axes.col == ColAxis::n) shape.push_back(e.cols);
  return shape;
}

std::vector<std::int64_t> shape_of(const Graph& graph, const Store& store, const Contraction& contraction) {
  if (store.form != StoreForm::whole) return ir::shape_of(store.form, contraction);
  return shape_of(graph[store.value].axes, contraction);
}

Values stored(const Values& values, DType dtype) {
  Values r = values;
  for (std::size_t i = 0; i < r.value.size(); ++i) {
    const V y = round_value({values.value[i], values.bound.empty() ? 0 : values.bound[i]}, dtype);
    r.value[i] = y.v;
    if (!r.bound.empty()) r.bound[i] = y.e;
  }
  return r;
}

namespace {

struct Interval {
  double low, high;
};

// What may stand in memory for an expected value: rounding is monotone, so the roundings of the interval's ends
Interval allowed(V x, DType t) {
  if (t == DType::boolean) {
    const V b = round_value(x, t);
    return {b.v - (b.v > 0 ? b.e : 0), b.v + (b.v > 0 ? 0 : b.e)};
  }
  return {support::round_to(x.v - x.e, t), support::round_to(x.v + x.e, t)};
}

void judge(Agreement& a, std::int64_t index, V expected, double actual, DType dtype) {
  ++a.elements;
  if (expected.e == infinity) {
    ++a.unclaimed;
    return;
  }
  double ratio = 0;
  if (is_float(dtype) && (std::isnan(expected.v) || std::isnan(actual))) {
    ratio = std::isnan(expected.v) && std::isnan(actual) ? 0 : infinity;
  } else {
    const Interval in = allowed(expected, dtype);
    const bool inside = in.low <= actual && actual <= in.high;
    const double error = actual == expected.v ? 0 : std::abs(actual - expected.v);
    const double tolerance = actual > expected.v ? in.high - expected.v : expected.v - in.low;
    if (std::isfinite(error)) a.largest_error = std::max(a.largest_error, error);
    if (error != 0 && std::isfinite(error) && tolerance > 0)
      ratio = inside ? std::min(1.0, error / tolerance) : error / tolerance;
    if (!inside) ratio = std::isfinite(error) && tolerance > 0 ? std::max(ratio, std::nextafter(1.0, 2.0)) : infinity;
  }
  if (ratio > 1) ++a.outside;
  if (ratio > a.worst || a.worst_index < 0) {
    a.worst = ratio;
    a.worst_index = index;
    a.worst_expected = expected.v;
    a.worst_actual = actual;
  }
}

}  // namespace

Agreement compare(const Values& expected, const Contraction& contraction, const ConstTensorView& actual) {
  const Strided view = checked(actual, shape_of(expected.axes, contraction), "the output to compare");
  const auto memory = gather(canonical(view, expected.axes, contraction));
  if (memory.size() != expected.value.size() || (!expected.bound.empty() && expected.bound.size() != memory.size()))
    throw UserError(fmt::format("compare was given {} expected values and {} bounds; expected {} of axes {}",
                                expected.value.size(), expected.bound.size(), memory.size(), to_string(expected.axes)));
  Agreement a;
  for (std::size_t i = 0; i < memory.size(); ++i)
    judge(a, static_cast<std::int64_t>(i), {expected.value[i], expected.bound.empty() ? 0 : expected.bound[i]},
          memory[i], actual.dtype);
  return a;
}

Agreement compare(const Values& expected, const Store& store, const Contraction& contraction,
                  const ConstTensorView& actual) {
  if (store.form == StoreForm::whole) return compare(expected, contraction, actual);
  const auto shape = ir::shape_of(store.form, contraction);
  if (actual.shape != shape) (void)checked(actual, shape, "the output to compare");
  if (element_count(shape) == 0) return {};
  const Layout layout = ir::image_layout(contraction);
  const std::size_t h = layout == Layout::nhwc ? 1 : 2, k = layout == Layout::nhwc ? 3 : 1;
  const Conv2d image{
      .n = shape[0], .h = shape[h], .w = shape[h + 1], .c = 1, .k = shape[k], .layout = layout};  // as many results
  return compare(expected, Contraction(image), actual);
}

}  // namespace unisono::reference
