/// Operators that pick, place, count and order elements, as ONNX defines them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/network/tensors.hpp"
#include "reference/onnx/definitions.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

void define_gather(Call& call) {
  const Tensor64 &x = call.in(0), &indices = call.in(1);
  const int axis = static_cast<int>(call.axis(call.integer("axis", 0), x.shape.size()));
  call.result(evaluated(operators::Gather{axis}, {&x, &indices}, x.dtype));
}

void define_gather_elements(Call& call) {
  const Tensor64 &x = call.in(0), &indices = call.in(1);
  const int axis = static_cast<int>(call.axis(call.integer("axis", 0), x.shape.size()));
  call.result(evaluated(operators::GatherElements{axis}, {&x, &indices}, x.dtype));
}

void define_gather_nd(Call& call) {
  const Tensor64 &x = call.in(0), &indices = call.in(1);
  const int batch = static_cast<int>(call.integer("batch_dims", 0));
  call.result(evaluated(operators::GatherND{batch}, {&x, &indices}, x.dtype));
}

ScatterReduction reduction(Call& call) {
  const std::string name = call.text("reduction", "none");
  if (name == "none") return ScatterReduction::none;
  if (name == "add") return ScatterReduction::add;
  if (name == "mul") return ScatterReduction::mul;
  if (name == "min") return ScatterReduction::min;
  if (name == "max") return ScatterReduction::max;
  call.fail("reduction '" + name + "'");
}

void define_scatter_elements(Call& call) {
  const Tensor64& x = call.in(0);
  const int axis = static_cast<int>(call.axis(call.integer("axis", 0), x.shape.size()));
  call.result(evaluated(operators::ScatterElements{axis, reduction(call)}, call.all(), x.dtype));
}

void define_scatter_nd(Call& call) {
  call.result(evaluated(operators::ScatterND{reduction(call)}, call.all(), call.in(0).dtype));
}

// Calls line(first index) for each line of x along the axis
template <class F>
void for_lines(const Extents64& shape, std::size_t axis, const F& line) {
  Extents64 lines = shape;
  lines[axis] = 1;
  for_indices(lines, line);
}

std::vector<double> line_of(const Tensor64& x, std::size_t axis, Extents64 at) {
  std::vector<double> elements;
  for (at[axis] = 0; at[axis] < x.shape[axis]; ++at[axis]) elements.push_back(x.value[place(x.shape, at)]);
  return elements;
}

// NumPy's argmax and argmin: the first of equal ones, or the last; the first NaN is beyond every number
std::int64_t extreme(const std::vector<double>& line, bool smallest, bool last) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < std::ssize(line); ++i) {
    const double x = line[static_cast<std::size_t>(i)], y = line[static_cast<std::size_t>(best)];
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    const bool better = std::isnan(y) ? false : std::isnan(x) || (smallest ? x < y : x > y);
    if (better || (last && same)) best = i;
  }
  return best;
}

Decision decided(const std::vector<double>& line, std::size_t best, bool smallest, DType t) {
  return is_float(t) && best < line.size() ? chosen(line, best, smallest) : Decision{};
}

void arg(Call& call, bool smallest) {
  const Tensor64& x = call.in(0);
  const std::size_t axis = call.axis(call.integer("axis", 0), x.shape.size());
  const bool last = call.integer("select_last_index", 0) != 0;
  std::vector<std::int64_t> places;
  std::vector<Decision> decisions;
  for_lines(x.shape, axis, [&](const Extents64& at) {
    const std::vector<double> line = line_of(x, axis, at);
    places.push_back(extreme(line, smallest, last));
    decisions.push_back(decided(line, static_cast<std::size_t>(places.back()), smallest, x.dtype));
  });
  Extents64 shape = x.shape;
  shape[axis] = 1;
  if (call.integer("keepdims", 1) == 0) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  Tensor64 y = integers_tensor(shape, places);
  for (std::size_t i = 0; i < decisions.size(); ++i) decide(y, i, decisions[i]);
  call.result(std::move(y));
}

void define_arg_max(Call& call) { arg(call, false); }
void define_arg_min(Call& call) { arg(call, true); }

// One at the first largest element along an axis; before opset 13 all axes from `axis` on are one
void define_hardmax(Call& call) {
  const Tensor64& given = call.in(0);
  const bool old = call.opset() < 13;
  std::size_t axis = call.axis(call.integer("axis", old ? 1 : -1), given.shape.size());
  const Tensor64 flat =
      in_shape(given, {product(given.shape, 0, axis), product(given.shape, axis, given.shape.size())});
  const Tensor64& x = old ? flat : given;
  if (old) axis = 1;
  Tensor64 y = empty_tensor(x.shape);
  for_lines(x.shape, axis, [&](Extents64 at) {
    const std::vector<double> line = line_of(x, axis, at);
    at[axis] = extreme(line, false, false);
    y.value[place(x.shape, at)] = 1;
    const Decision next = decided(line, static_cast<std::size_t>(at[axis]), false, x.dtype);
    decide(y, place(x.shape, at), {next.margin, 0});
    at[axis] = static_cast<std::int64_t>(next.other);
    decide(y, place(x.shape, at), {next.margin, 1});
  });
  y.shape = given.shape;
  y.dtype = given.dtype;
  call.result(std::move(y));
}

// The element beside place k of the order that is nearest to the one there
Decision neighbour(const std::vector<double>& line, const std::vector<std::size_t>& order, std::size_t k) {
  Decision nearest;
  for (const std::size_t at : {k - 1, k + 1})  // k - 1 wraps
    if (const std::size_t other = at < order.size() ? order[at] : order[k]; other != order[k])
      if (const double margin = std::abs(line[other] - line[order[k]]); margin < nearest.margin)
        nearest = {margin, static_cast<double>(other)};
  return nearest;
}

// The first of equal ones comes first; a NaN is above every number
void define_top_k(Call& call) {
  const Tensor64& x = call.in(0);
  const std::size_t axis = call.axis(call.integer("axis", -1), x.shape.size());
  const std::int64_t k = call.has(1) ? call.numbers(1).at(0) : call.integer("k", 1);
  const bool largest = call.integer("largest", 1) != 0;
  Extents64 shape = x.shape;
  shape[axis] = k;
  Tensor64 values = empty_tensor(shape), places = empty_tensor(shape);
  values.dtype = x.dtype, places.dtype = DType::i64;
  for_lines(x.shape, axis, [&](Extents64 at) {
    const std::vector<double> line = line_of(x, axis, at);
    std::vector<std::size_t> order(line.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto above = [&](double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return largest ? above(line[a], line[b]) : above(line[b], line[a]);
    });
    for (at[axis] = 0; at[axis] < k; ++at[axis]) {
      const std::size_t from = order.at(static_cast<std::size_t>(at[axis])), to = place(shape, at);
      values.value[to] = line[from], places.value[to] = static_cast<double>(from);
      if (is_float(x.dtype)) decide(places, to, neighbour(line, order, static_cast<std::size_t>(at[axis])));
    }
  });
  call.result(std::move(values));
  call.result(std::move(places), 1);
}

// Running sums or products
void cumulate(Call& call, bool products) {
  const Tensor64& x = call.in(0);
  const std::size_t axis = call.axis(call.numbers(1).at(0), x.shape.size());
  const bool exclusive = call.integer("exclusive", 0) != 0, reverse = call.integer("reverse", 0) != 0;
  const double u = roundoff(x.dtype);
  Tensor64 y = empty_tensor(x.shape);
  y.dtype = x.dtype;
  for_lines(x.shape, axis, [&](Extents64 at) {
    double sum = products ? 1 : 0, sizes = sum, count = 0;
    const std::vector<double> line = line_of(x, axis, at);
    const auto n = std::ssize(line);
    for (std::int64_t i = 0; i < n; ++i) {
      at[axis] = reverse ? n - 1 - i : i;
      const double next = line[static_cast<std::size_t>(at[axis])];
      const auto add = [&] {
        sum = products ? sum * next : sum + next;
        sizes = products ? std::abs(sum) : sizes + std::abs(next);
        ++count;
        if (!is_float(x.dtype)) sum = as_integer(sum, x.dtype);
      };
      if (!exclusive) add();
      const std::size_t to = place(x.shape, at);
      y.value[to] = sum;
      y.bound[to] = bound_within(u * (products ? count : std::sqrt(count)) * sizes, sum, sizes, x.dtype);
      if (exclusive) add();
    }
  });
  call.result(std::move(y));
}

void define_cum_sum(Call& call) { cumulate(call, false); }
void define_cum_prod(Call& call) { cumulate(call, true); }

void define_trilu(Call& call) {
  Tensor64 y = in_shape(call.in(0), call.in(0).shape);
  const bool upper = call.integer("upper", 1) != 0;
  const std::int64_t k = call.has(1) ? call.numbers(1).at(0) : 0;
  std::size_t to = 0;
  for_indices(y.shape, [&](const Extents64& at) {
    const std::int64_t diagonal = at.back() - at[at.size() - 2];
    if (upper ? diagonal < k : diagonal > k) y.value[to] = 0;
    ++to;
  });
  call.result(std::move(y));
}

// values: {off, on}; an index outside [−depth, depth) makes a row of off
void define_one_hot(Call& call) {
  const Tensor64 &indices = call.in(0), &values = call.in(2);
  const std::int64_t depth = call.numbers(1).at(0);
  Extents64 shape = indices.shape;
  const std::size_t axis = call.axis(call.integer("axis", -1), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  Tensor64 y = empty_tensor(shape);
  y.dtype = values.dtype;
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 at) {
    const std::int64_t here = at[axis];
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(axis));
    const double index = indices.value[place(indices.shape, at)];
    const double wanted = index < 0 ? index + static_cast<double>(depth) : index;
    y.value[to++] = values.value.at(wanted == static_cast<double>(here) ? 1 : 0);
  });
  call.result(std::move(y));
}

constexpr OnnxDefinition index_table[] = {
    {"ArgMax", define_arg_max},       {"ArgMin", define_arg_min},
    {"CumProd", define_cum_prod},     {"CumSum", define_cum_sum},
    {"Gather", define_gather},        {"GatherElements", define_gather_elements},
    {"GatherND", define_gather_nd},   {"Hardmax", define_hardmax},
    {"OneHot", define_one_hot},       {"ScatterElements", define_scatter_elements},
    {"ScatterND", define_scatter_nd}, {"TopK", define_top_k},
    {"Trilu", define_trilu}};

}  // namespace

std::span<const OnnxDefinition> index_definitions() { return index_table; }

}  // namespace unisono::float64
