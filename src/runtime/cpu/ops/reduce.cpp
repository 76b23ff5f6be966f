#include "runtime/cpu/ops/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace unisono::cpu {

namespace {

// Splits an index space into what stays and what is reduced
struct Split {
  Extents64 outer, outer_from, outer_to, inner, inner_from;
};

Split split(const Strided& x, const std::vector<int>& axes, const Strided& to) {
  Split s;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end()) {
      s.inner.push_back(x.shape[i]);
      s.inner_from.push_back(x.strides[i]);
    } else {
      s.outer.push_back(x.shape[i]);
      s.outer_from.push_back(x.strides[i]);
      s.outer_to.push_back(to.strides[i]);
    }
  }
  return s;
}

// visit(element) for all of the inner space, the last axis as a loop
template <class T, class F>
void for_inner(const Split& s, const T* x, F visit) {
  const std::int64_t count = count_of(s.inner);
  if (count == 0) return;
  if (s.inner.empty()) return visit(*x);
  const std::int64_t row = s.inner.back(), step = s.inner_from.back();
  const Extents64 shape(s.inner.begin(), s.inner.end() - 1), strides(s.inner_from.begin(), s.inner_from.end() - 1);
  Odometer at(shape, strides);
  for (std::int64_t r = 0; r < count / row; ++r, at.next())
    for (std::int64_t i = 0; i < row; ++i) visit(x[at.offset() + i * step]);
}

template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <class T, class F>
T folded(const Split& s, const T* x, Wide<T> start, F step) {
  Wide<T> sum = start;
  for_inner(s, x, [&](T v) { sum = step(sum, static_cast<Wide<T>>(v)); });
  return static_cast<T>(sum);
}

template <class T>
T extreme(const Split& s, const T* x, bool largest) {
  T best = largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  if constexpr (std::is_floating_point_v<T>)
    best = largest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  for_inner(s, x, [&](T v) {
    if (v != v || (best == best && (largest ? v > best : v < best))) best = v;
  });
  return best;
}

template <class T>
T reduced(ReduceOp op, const Split& s, const T* x) {
  using W = Wide<T>;
  switch (op) {
    case ReduceOp::sum: return folded<T>(s, x, 0, [](W a, W v) { return a + v; });
    case ReduceOp::prod: return folded<T>(s, x, 1, [](W a, W v) { return a * v; });
    case ReduceOp::max: return extreme(s, x, true);
    case ReduceOp::min: return extreme(s, x, false);
    case ReduceOp::sum_square: return folded<T>(s, x, 0, [](W a, W v) { return a + v * v; });
    default: break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    double sum = 0;
    const auto count = static_cast<double>(count_of(s.inner));
    switch (op) {
      case ReduceOp::mean: for_inner(s, x, [&](T v) { sum += v; }); return static_cast<T>(sum / count);
      case ReduceOp::l1: for_inner(s, x, [&](T v) { sum += std::abs(v); }); return static_cast<T>(sum);
      case ReduceOp::l2:
        for_inner(s, x, [&](T v) { sum += static_cast<double>(v) * v; });
        return static_cast<T>(std::sqrt(sum));
      case ReduceOp::log_sum: for_inner(s, x, [&](T v) { sum += v; }); return static_cast<T>(std::log(sum));
      case ReduceOp::log_sum_exp: {
        const T top = extreme(s, x, true);
        if (!std::isfinite(top)) return top;
        for_inner(s, x, [&](T v) { sum += std::exp(static_cast<double>(v) - top); });
        return static_cast<T>(std::log(sum) + top);
      }
      default: break;
    }
  }
  throw InternalError("a reduction of integers has no such operator");
}

template <class F>
void for_outer(const Split& s, const Parallel& parallel, F body) {
  parallel(count_of(s.outer), [&](std::int64_t begin, std::int64_t end) {
    Odometer from(s.outer, s.outer_from), to(s.outer, s.outer_to);
    from.seek(begin);
    to.seek(begin);
    for (std::int64_t i = begin; i < end; ++i, from.next(), to.next()) body(from.offset(), to.offset());
  });
}

}  // namespace

void reduce(ReduceOp op, const Strided& x, const std::vector<int>& axes, const Strided& to, const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const Split s = split(x, axes, to);
  with_type(x.dtype, [&]<class T>() {
    const auto* in = static_cast<const T*>(x.data);
    auto* out = static_cast<T*>(to.data);
    const bool empty = count_of(s.inner) == 0;  // then x may have no memory
    for_outer(s, parallel,
              [&](std::int64_t from, std::int64_t at) { out[at] = reduced(op, s, empty ? in : in + from); });
  });
}

void arg_reduce(bool smallest, bool last, int axis, const Strided& x, const Strided& to, const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const Split s = split(x, {axis}, to);
  auto* out = static_cast<std::int64_t*>(to.data);
  with_type(x.dtype, [&]<class T>() {
    const auto* in = static_cast<const T*>(x.data);
    for_outer(s, parallel, [&](std::int64_t from, std::int64_t at) {
      const T* row = in + from;
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < s.inner[0]; ++i) {
        const T a = row[best * s.inner_from[0]], b = row[i * s.inner_from[0]];
        const bool better = a == a && (b != b || (smallest ? b < a : b > a));
        const bool same = a == b || (a != a && b != b);
        if (better || (last && same)) best = i;
      }
      out[at] = best;
    });
  });
}

}  // namespace unisono::cpu
