/// Shapes of the operators that pick, place, count and order elements.

#include <fmt/format.h>

#include <algorithm>

#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

template <class... T>
[[noreturn]] void reject(const OperatorInputs& in, fmt::format_string<T...> format, T&&... args) {
  throw UserError(fmt::format("{}: {}", in.where, fmt::format(format, std::forward<T>(args)...)));
}

void require_inputs(const OperatorInputs& in, std::size_t n) {
  if (in.tensors.size() != n) reject(in, "was given {} inputs; expected {}", in.tensors.size(), n);
}

void require_axis(const OperatorInputs& in, int axis, std::size_t rank) {
  if (axis < 0 || axis >= static_cast<int>(rank)) reject(in, "axis is {}; expected 0 to below {}", axis, rank);
}

// Checks indices that name positions along one axis of x: on the other axes they must not exceed x
void require_lines(const OperatorInputs& in, int axis) {
  const Shape &x = in.shape(0), &at = in.shape(1);
  if (x.size() != at.size()) reject(in, "indices have shape {}; expected the rank of {}", to_string(at), to_string(x));
  require_axis(in, axis, x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<int>(i) != axis && x[i].known() && at[i].known() && at[i].value() > x[i].value())
      reject(in, "indices have shape {}, which is longer than {} along axis {}", to_string(at), to_string(x), i);
}

// The number of axes of x that a tuple of indices names
std::size_t tuple_size(const OperatorInputs& in, std::size_t batch) {
  const Shape &x = in.shape(0), &at = in.shape(1);
  if (at.empty() || x.empty()) reject(in, "{} and indices {} have a scalar", to_string(x), to_string(at));
  if (!at.back().known())
    reject(in, "indices have shape {}; the last extent must be a number: it says how many axes they name",
           to_string(at));
  const std::int64_t n = at.back().value();
  if (n < 1 || n + static_cast<std::int64_t>(batch) > std::ssize(x))
    reject(in, "indices {} name {} axes after the first {} of {}", to_string(at), n, batch, to_string(x));
  return static_cast<std::size_t>(n);
}

}  // namespace

SliceRange slice_range(std::int64_t extent, std::int64_t start, std::int64_t end, std::int64_t step) {
  const auto place = [&](std::int64_t i, std::int64_t low, std::int64_t high) {
    return std::clamp(i < 0 ? (i < -extent ? low : i + extent) : i, low, high);
  };
  SliceRange r{.step = step};
  if (step > 0) {
    r.begin = place(start, 0, extent);
    const std::int64_t last = place(end, 0, extent);
    r.count = last > r.begin ? (last - r.begin - 1) / step + 1 : 0;
  } else {
    r.begin = place(start, -1, extent - 1);
    const std::int64_t last = place(end, -1, extent - 1);
    // the lowest integer has no opposite, but no extent is that wide either
    const std::int64_t stride = step < -largest_extent ? largest_extent : -step;
    r.count = r.begin > last ? (r.begin - last - 1) / stride + 1 : 0;
  }
  return r;
}

SliceRange slice_range(const operators::Slice& s, std::size_t i, std::int64_t extent) {
  if (s.parts == 0) return slice_range(extent, s.starts[i], s.ends[i], s.steps[i]);
  const std::int64_t length = s.steps[i] > 1 ? s.steps[i] : (extent + s.parts - 1) / s.parts;
  const std::int64_t begin = s.starts[i] * length, end = s.ends[i] == s.parts ? extent : s.ends[i] * length;
  return {.begin = begin, .count = end - begin};
}

namespace {

// Parts of a length that is given
Dim some_given_parts(const operators::Slice& s, const OperatorInputs& in, const Dim& d) {
  const std::int64_t n = s.parts, length = s.steps[0], all = n * length;
  if (!d.known()) return s.ends[0] < n ? Dim((s.ends[0] - s.starts[0]) * length) : affine(d, 1, -s.starts[0] * length);
  if (d.value() > all || d.value() <= all - length)
    reject(in,
           "axis {} of {} has {} elements, and its {} parts of {} have {} in all, at least {} with a shorter last one",
           s.axes[0], to_string(in.shape(0)), d.value(), n, length, all, all - length + 1);
  return Dim(slice_range(s, 0, d.value()).count);
}

// Parts of an axis
Dim some_parts(const operators::Slice& s, const OperatorInputs& in, const Dim& d) {
  const std::int64_t n = s.parts, begin = s.starts[0], end = s.ends[0], step = s.steps[0];
  if (n < 1 || n > largest_extent || begin < 0 || end <= begin || end > n || step < 1 || step > largest_extent / n)
    reject(in, "takes parts {} to before {} of {}, of {} elements; expected one or more", begin, end, n, step);
  if (step > 1) return some_given_parts(s, in, d);
  if (d.known()) {
    if (const SliceRange r = slice_range(s, 0, d.value()); r.begin + r.count <= d.value() && r.count >= 0)
      return Dim(r.count);
    reject(in, "{} elements do not divide into {} parts of {}; only the last may be shorter", d.value(), n,
           (d.value() + n - 1) / n);
  }
  const Dim part = divided(affine(d, 1, n - 1), n);
  if (end < n) return affine(part, end - begin, 0);
  if (const auto whole = whole_quotient(d, Dim(n))) return affine(*whole, end - begin, 0);
  return n == 2 && begin == 1 ? divided(d, 2)
                              : formula(fmt::format("{}-({})*{}", to_string(d), to_string(part), begin));
}

// What a range of an axis that is no number yet has
Dim open_range(const Dim& d, std::int64_t start, std::int64_t end, std::int64_t step) {
  // one element is taken for one that is there, as it broadcasts; more are cut off where the axis may be shorter
  const bool to_the_end = end >= largest_extent - 1,  // exporters write the largest integer of 32 or 64 bits
      near = start >= 0 && start < largest_extent;
  const auto fits = [&](std::int64_t elements, std::int64_t taken) { return taken == 1 || elements <= least(d); };
  if (step == 1 && near && to_the_end) return affine(d, 1, -start);
  if (step == 1 && near && end < 0 && end > -largest_extent) return affine(d, 1, end - start);
  if (step == 1 && start < 0 && start > -largest_extent && to_the_end && fits(-start, -start)) return Dim(-start);
  if (step == 1 && near && end > start && fits(end, end - start)) return Dim(end - start);
  if (step > 1 && step < largest_extent && near && start < step && to_the_end)
    return divided(affine(d, 1, step - 1 - start), step);
  return formula(fmt::format("{}[{}:{}:{}]", to_string(d), start, end, step));
}

}  // namespace

Shape infer_tensor_shape(const operators::Slice& s, const OperatorInputs& in) {
  require_inputs(in, 1);
  Shape r = in.shape(0);
  const std::size_t n = s.axes.size();
  if (s.starts.size() != n || s.ends.size() != n || s.steps.size() != n)
    reject(in, "was given {} starts, {} ends and {} steps for {} axes", s.starts.size(), s.ends.size(), s.steps.size(),
           n);
  for (std::size_t i = 0; i < n; ++i) {
    require_axis(in, s.axes[i], r.size());
    if (std::count(s.axes.begin(), s.axes.end(), s.axes[i]) > 1) reject(in, "axis {} is named twice", s.axes[i]);
    if (s.steps[i] == 0) reject(in, "the step of axis {} is 0", s.axes[i]);
    Dim& d = r[static_cast<std::size_t>(s.axes[i])];
    if (s.parts != 0) {
      if (n != 1) reject(in, "takes parts of {} axes; expected one", n);
      d = some_parts(s, in, d);
      continue;
    }
    d = d.known() ? Dim(slice_range(s, i, d.value()).count) : open_range(d, s.starts[i], s.ends[i], s.steps[i]);
  }
  return r;
}

Shape infer_tensor_shape(const operators::GatherElements& g, const OperatorInputs& in) {
  require_inputs(in, 2);
  require_lines(in, g.axis);
  return in.shape(1);
}

Shape infer_tensor_shape(const operators::GatherND& g, const OperatorInputs& in) {
  require_inputs(in, 2);
  const Shape &x = in.shape(0), &at = in.shape(1);
  if (g.batch < 0 || g.batch >= std::ssize(x) || g.batch >= std::ssize(at))
    reject(in, "batch_dims is {}; expected 0 to below the ranks of {} and {}", g.batch, to_string(x), to_string(at));
  const auto batch = static_cast<std::size_t>(g.batch);
  const std::size_t named = tuple_size(in, batch);
  for (std::size_t i = 0; i < batch; ++i)
    if (!may_equal(x[i], at[i]))
      reject(in, "{} and indices {} differ in the batch's axis {}", to_string(x), to_string(at), i);
  Shape r(at.begin(), at.end() - 1);
  r.insert(r.end(), x.begin() + static_cast<std::ptrdiff_t>(batch + named), x.end());
  return r;
}

Shape infer_tensor_shape(const operators::ScatterElements& s, const OperatorInputs& in) {
  require_inputs(in, 3);
  require_lines(in, s.axis);
  const Shape &at = in.shape(1), &updates = in.shape(2);
  if (!std::equal(at.begin(), at.end(), updates.begin(), updates.end(), may_equal))
    reject(in, "updates have shape {}; expected that of the indices, {}", to_string(updates), to_string(at));
  return in.shape(0);
}

Shape infer_tensor_shape(const operators::ScatterND&, const OperatorInputs& in) {
  require_inputs(in, 3);
  const Shape &x = in.shape(0), &at = in.shape(1), &updates = in.shape(2);
  const std::size_t named = tuple_size(in, 0);
  Shape expected(at.begin(), at.end() - 1);
  expected.insert(expected.end(), x.begin() + static_cast<std::ptrdiff_t>(named), x.end());
  if (!std::equal(expected.begin(), expected.end(), updates.begin(), updates.end(), may_equal))
    reject(in, "updates have shape {}; expected {}", to_string(updates), to_string(expected));
  return x;
}

Shape infer_tensor_shape(const operators::Range& r, const OperatorInputs& in) {
  require_inputs(in, 1);
  require_axis(in, r.axis, in.shape(0).size());
  return {in.shape(0)[static_cast<std::size_t>(r.axis)]};
}

Shape infer_tensor_shape(const operators::Triangle&, const OperatorInputs& in) {
  require_inputs(in, 1);
  if (in.shape(0).size() < 2) reject(in, "the input has shape {}; expected matrices", to_string(in.shape(0)));
  return in.shape(0);
}

Shape infer_tensor_shape(const operators::CumulativeSum& c, const OperatorInputs& in) {
  require_inputs(in, 1);
  require_axis(in, c.axis, in.shape(0).size());
  return in.shape(0);
}

Shape infer_tensor_shape(const operators::TopK& t, const OperatorInputs& in) {
  require_inputs(in, 1);
  Shape r = in.shape(0);
  require_axis(in, t.axis, r.size());
  Dim& d = r[static_cast<std::size_t>(t.axis)];
  if (t.count < 0 || t.count > largest_extent || (d.known() && t.count > d.value()))
    reject(in, "k is {}; expected 0 to the extent {} of axis {}", t.count, to_string(d), t.axis);
  d = Dim(t.count);
  return r;
}

Shape infer_tensor_shape(const operators::Recurrence& r, const OperatorInputs& in) {
  const std::size_t optional = std::size_t{r.has_extra} + r.has_lengths + r.has_h + r.has_c;
  require_inputs(in, 2 + optional);
  const Shape &x = in.shape(0), &w = in.shape(1);
  const std::int64_t gates = gates_of(r.cell), states = states_of(r.cell);
  const auto is_matrix = [](const Shape& s) { return s.size() == 3 && s[0].known() && s[1].known(); };
  if (x.size() != 3 || !is_matrix(w) || w[0].value() < 1 || w[0].value() > 2 || w[1].value() < 1 ||
      w[2] != Dim(gates * w[1].value()))
    reject(in, "input and weights have shapes {} and {}; expected (T,N,D*{}*H) and (D,H,{}*H) for 1 or 2 directions",
           to_string(x), to_string(w), gates, gates);
  const std::int64_t directions = w[0].value(), hidden = w[1].value();
  if (std::ssize(r.functions) != directions * functions_of(r.cell))
    reject(in, "has {} functions; expected {}", r.functions.size(), directions * functions_of(r.cell));
  if (!(r.clip >= 0)) reject(in, "clip is {}; expected 0 or more", r.clip);
  if (r.has_c && states != 2) reject(in, "has a cell's state; expected that of an lstm alone");
  if (r.has_extra && r.cell != RecurrentCell::lstm && !(r.cell == RecurrentCell::gru && r.linear_before_reset))
    reject(in, "has an extra input; expected that of an lstm or of a gru with linear_before_reset alone");
  std::size_t next = 2;
  const auto require = [&](bool given, std::string_view what, const Shape& expected) {
    if (!given) return;
    const Shape& s = in.shape(next++);
    if (!std::equal(s.begin(), s.end(), expected.begin(), expected.end(), may_equal))
      reject(in, "{} have shape {}; expected {}", what, to_string(s), to_string(expected));
  };
  if (!may_equal(x[2], Dim(directions * gates * hidden)))
    reject(in, "the input has shape {}; expected {} columns", to_string(x), directions * gates * hidden);
  require(r.has_extra, "extra weights", {directions, (r.cell == RecurrentCell::lstm ? 3 : 1) * hidden});
  require(r.has_lengths, "lengths", {x[1]});
  require(r.has_h, "initial states", {x[1], directions * hidden});
  require(r.has_c, "initial cells", {x[1], directions * hidden});
  return {affine(x[0], 1, states), x[1], directions * hidden};
}

Shape infer_tensor_shape(const operators::GridSample& g, const OperatorInputs& in) {
  require_inputs(in, 2);
  const Shape &x = in.shape(0), &grid = in.shape(1);
  if (x.size() < 4 || x.size() > 5 || grid.size() != x.size())
    reject(in, "image and grid have shapes {} and {}; expected 4 or 5 extents each", to_string(x), to_string(grid));
  const std::size_t axes = x.size() - 2;
  if (g.mode == GridMode::cubic && axes != 2) reject(in, "mode cubic takes images; {} is a volume", to_string(x));
  if (!may_equal(grid.back(), Dim(axes)) || !may_equal(x[0], grid[0]))
    reject(in, "grid {} does not fit {}; expected ({},…,{})", to_string(grid), to_string(x), to_string(x[0]), axes);
  Shape r{x[0], x[1]};
  r.insert(r.end(), grid.begin() + 1, grid.end() - 1);
  return r;
}

}  // namespace unisono::network
