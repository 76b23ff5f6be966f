/// Operators that pick, place, count and order elements, see tensors.hpp.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/network/tensors.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

/// The place that element `at` of the indices names on an axis of this extent.
std::int64_t named_place(const Tensor64& indices, const Extents64& at, std::int64_t extent) {
  const auto given = static_cast<std::int64_t>(indices.value[place(indices.shape, at)]);
  const std::int64_t picked = given < 0 ? given + extent : given;
  if (picked < 0 || picked >= extent)
    throw UserError(fmt::format("index {} is outside an axis of extent {}", given, extent));
  return picked;
}

Tensor64 copy_of(const Tensor64& x) { return reshaped(x, x.shape); }

/// An element and an update as one, with the error that the float type may make of it.
void reduce_into(Tensor64& y, std::size_t at, double update, ScatterReduction reduction, DType t) {
  double& x = y.value[at];
  const double u = is_float(t) ? unit_roundoff(t) : 0;
  double factor = 0;
  switch (reduction) {
    case ScatterReduction::none: x = update; return;
    case ScatterReduction::add: x += update, factor = 1; break;
    case ScatterReduction::mul: x *= update, y.bound[at] *= std::abs(update), factor = 1; break;
    case ScatterReduction::min: x = std::isnan(x) || std::isnan(update) ? x + update : std::min(x, update); return;
    case ScatterReduction::max: x = std::isnan(x) || std::isnan(update) ? x + update : std::max(x, update); return;
  }
  if (!is_float(t)) x = as_integer(x, t);
  y.bound[at] += factor * u * std::abs(x);
}

}  // namespace

Tensor64 evaluate_tensors(const operators::GatherElements& o, const ReferenceInputs& in) {
  const Tensor64 &x = *in[0], &indices = *in[1];
  const auto axis = static_cast<std::size_t>(o.axis);
  Tensor64 y = empty_tensor(indices.shape);
  std::size_t to = 0;
  for_indices(indices.shape, [&](Extents64 at) {
    at[axis] = named_place(indices, at, x.shape[axis]);
    y.value[to++] = x.value[place(x.shape, at)];
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::GatherND& o, const ReferenceInputs& in) {
  const Tensor64 &x = *in[0], &indices = *in[1];
  const auto batch = static_cast<std::ptrdiff_t>(o.batch);
  const auto named = static_cast<std::ptrdiff_t>(indices.shape.back());
  Extents64 shape(indices.shape.begin(), indices.shape.end() - 1);
  const auto tuples = std::ssize(shape);
  shape.insert(shape.end(), x.shape.begin() + batch + named, x.shape.end());
  Tensor64 y = empty_tensor(shape);
  std::size_t to = 0;
  for_indices(shape, [&](const Extents64& index) {
    Extents64 from(index.begin(), index.begin() + batch), tuple(index.begin(), index.begin() + tuples);
    tuple.push_back(0);
    for (; tuple.back() < named; ++tuple.back())
      from.push_back(named_place(indices, tuple, x.shape[static_cast<std::size_t>(batch + tuple.back())]));
    from.insert(from.end(), index.begin() + tuples, index.end());
    y.value[to++] = x.value[place(x.shape, from)];
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::ScatterElements& o, const ReferenceInputs& in) {
  const Tensor64 &indices = *in[1], &updates = *in[2];
  const auto axis = static_cast<std::size_t>(o.axis);
  Tensor64 y = copy_of(*in[0]);
  std::size_t from = 0;
  for_indices(indices.shape, [&](Extents64 at) {
    at[axis] = named_place(indices, at, y.shape[axis]);
    reduce_into(y, place(y.shape, at), updates.value[from++], o.reduction, in[0]->dtype);
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::ScatterND& o, const ReferenceInputs& in) {
  const Tensor64 &indices = *in[1], &updates = *in[2];
  Tensor64 y = copy_of(*in[0]);
  const auto tuples = std::ssize(indices.shape) - 1;
  std::size_t from = 0;
  for_indices(updates.shape, [&](const Extents64& index) {
    Extents64 tuple(index.begin(), index.begin() + tuples), at;
    tuple.push_back(0);
    for (; tuple.back() < indices.shape.back(); ++tuple.back())
      at.push_back(named_place(indices, tuple, y.shape[static_cast<std::size_t>(tuple.back())]));
    at.insert(at.end(), index.begin() + tuples, index.end());
    reduce_into(y, place(y.shape, at), updates.value[from++], o.reduction, in[0]->dtype);
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::Range& o, const ReferenceInputs& in) {
  Tensor64 y = empty_tensor({in[0]->shape[static_cast<std::size_t>(o.axis)]});
  for (std::size_t i = 0; i < y.value.size(); ++i) y.value[i] = static_cast<double>(i);
  return y;
}

Tensor64 evaluate_tensors(const operators::Triangle& o, const ReferenceInputs& in) {
  Tensor64 y = copy_of(*in[0]);
  std::size_t at = 0;
  for_indices(y.shape, [&](const Extents64& index) {
    const std::int64_t diagonal = index.back() - index[index.size() - 2];
    if (o.upper ? diagonal < o.diagonal : diagonal > o.diagonal) y.value[at] = 0;
    ++at;
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::CumulativeSum& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const auto axis = static_cast<std::size_t>(o.axis);
  const double u = is_float(x.dtype) ? unit_roundoff(x.dtype) : 0;
  Tensor64 y = empty_tensor(x.shape);
  std::size_t to = 0;
  for_indices(x.shape, [&](const Extents64& index) {
    double sum = 0, sizes = 0, terms = 0;
    const auto add = [&](std::int64_t i) {
      Extents64 at = index;
      at[axis] = i;
      const double term = x.value[place(x.shape, at)];
      sum += term, sizes += std::abs(term), ++terms;
    };
    const std::int64_t here = index[axis], skip = o.exclusive ? 1 : 0;
    for (std::int64_t i = o.reverse ? here + skip : 0; i < (o.reverse ? x.shape[axis] : here + 1 - skip); ++i) add(i);
    y.value[to] = is_float(x.dtype) ? sum : as_integer(sum, x.dtype);
    y.bound[to++] = u * (std::sqrt(terms) * sizes + std::abs(sum));
  });
  return y;
}

Tensor64 evaluate_tensors(const operators::TopK& o, const ReferenceInputs& in) {
  const Tensor64& x = *in[0];
  const auto axis = static_cast<std::size_t>(o.axis);
  Extents64 shape = x.shape;
  shape[axis] = o.count;
  Tensor64 y = empty_tensor(shape);
  Extents64 lines = x.shape;
  lines[axis] = 1;
  for_indices(lines, [&](Extents64 at) {
    std::vector<std::pair<double, std::int64_t>> all;  // falling or rising keys, a NaN above every number
    for (std::int64_t i = 0; i < x.shape[axis]; ++i) {
      at[axis] = i;
      const double v = x.value[place(x.shape, at)];
      all.emplace_back(std::isnan(v) ? std::numeric_limits<double>::infinity() : v, i);
    }
    const auto is_nan = [&](std::int64_t i) {
      at[axis] = i;
      return std::isnan(x.value[place(x.shape, at)]);
    };
    std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      const bool same = a.first == b.first;  // infinity or NaN
      if (same) return o.smallest ? !is_nan(a.second) && is_nan(b.second) : is_nan(a.second) && !is_nan(b.second);
      return o.smallest ? a.first < b.first : a.first > b.first;
    });
    for (std::int64_t k = 0; k < o.count; ++k) {
      at[axis] = k;
      y.value[place(shape, at)] = static_cast<double>(all[static_cast<std::size_t>(k)].second);
    }
  });
  return y;
}

}  // namespace unisono::float64
