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
