#include "runtime/cpu/ops/reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

namespace unisono::cpu {

namespace {

// Splits an index space into what stays and what is reduced
struct Split {
  Extents64 outer, outer_from, outer_to, inner, inner_from;
};

Split split(const Strided& x, std::span<const int> axes, const Strided& to) {
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

template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

// A reduction: accumulators begin with `start`, step(accumulator, element) takes an element in, merge(a, b) joins two,
// finish() makes the result
template <class T, class A, class Step, class Merge, class Finish>
struct Fold {
  using Accumulator = A;
  A start;
  Step step;
  Merge merge;
  Finish finish;
};

template <class T, class A, class Step, class Merge, class Finish>
Fold<T, A, Step, Merge, Finish> fold(A start, Step step, Merge merge, Finish finish) {
  return {start, step, merge, finish};
}

constexpr std::size_t lanes = 16;

// All of the inner space into one accumulator. Runs of neighbours have several accumulators, so that additions overlap.
template <class F, class T>
typename F::Accumulator folded_row(const F& f, const Extents64& shape, const Extents64& strides, const T* x) {
  using A = typename F::Accumulator;
  if (shape.empty()) return f.step(f.start, *x);
  std::array<A, lanes> sums;
  sums.fill(f.start);
  const std::int64_t row = shape.back(), step = strides.back();
  const Extents64 outer(shape.begin(), shape.end() - 1), outer_strides(strides.begin(), strides.end() - 1);
  Odometer at(outer, outer_strides);
  for (std::int64_t r = count_of(outer); r > 0; --r, at.next()) {
    const T* p = x + at.offset();
    std::int64_t i = 0;
    if (step == 1)
      for (; i + static_cast<std::int64_t>(lanes) <= row; i += lanes)
        for (std::size_t l = 0; l < lanes; ++l) sums[l] = f.step(sums[l], p[i + static_cast<std::int64_t>(l)]);
    for (; i < row; ++i) sums[0] = f.step(sums[0], p[i * step]);
  }
  for (std::size_t n = lanes / 2; n > 0; n /= 2)
    for (std::size_t l = 0; l < n; ++l) sums[l] = f.merge(sums[l], sums[l + n]);
  return sums[0];
}

constexpr std::int64_t most_columns = 256;

// Results that lie side by side, whose elements do too: an accumulator each
template <class F, class T>
void fold_columns(const F& f, const Split& s, const T* x, std::int64_t columns, T* to, std::int64_t to_step) {
  std::array<typename F::Accumulator, most_columns> sums;
  std::fill_n(sums.begin(), columns, f.start);
  Odometer at(s.inner, s.inner_from);
  for (std::int64_t r = count_of(s.inner); r > 0; --r, at.next()) {
    const T* p = x + at.offset();
    for (std::int64_t c = 0; c < columns; ++c)
      sums[static_cast<std::size_t>(c)] = f.step(sums[static_cast<std::size_t>(c)], p[c]);
  }
  for (std::int64_t c = 0; c < columns; ++c) to[c * to_step] = f.finish(sums[static_cast<std::size_t>(c)]);
}

// The axis among these whose elements are neighbours; their number if there is none
std::size_t dense_axis(const Extents64& shape, const Extents64& strides) {
  std::size_t axis = 0;
  while (axis < shape.size() && (strides[axis] != 1 || shape[axis] == 1)) ++axis;
  return axis;
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

template <class F, class T>
void reduce_by(const F& f, Split s, const T* x, T* to, const Parallel& parallel) {
  const std::size_t side = dense_axis(s.outer, s.outer_from);
  if (side < s.outer.size()) {
    // blocks of the axis that lies side by side take its place
    const std::int64_t extent = s.outer[side], step = s.outer_to[side], width = std::min(extent, most_columns);
    s.outer[side] = (extent + width - 1) / width;
    s.outer_from[side] = width;
    s.outer_to[side] = width * step;
    Extents64 number(s.outer.size(), 0);  // strides that count the blocks of that axis
    number[side] = 1;
    parallel(count_of(s.outer), [&](std::int64_t begin, std::int64_t end) {
      Odometer from(s.outer, s.outer_from), at(s.outer, s.outer_to), block(s.outer, number);
      from.seek(begin), at.seek(begin), block.seek(begin);
      for (std::int64_t i = begin; i < end; ++i, from.next(), at.next(), block.next())
        fold_columns(f, s, x + from.offset(), std::min(width, extent - block.offset() * width), to + at.offset(), step);
    });
    return;
  }
  // the axis along which elements are neighbours is the innermost
  if (const std::size_t last = dense_axis(s.inner, s.inner_from); last < s.inner.size()) {
    std::swap(s.inner[last], s.inner.back());
    std::swap(s.inner_from[last], s.inner_from.back());
  }
  for_outer(s, parallel, [&](std::int64_t from, std::int64_t at) {
    to[at] = f.finish(folded_row(f, s.inner, s.inner_from, x + from));
  });
}

// A NaN wins
template <class T>
auto largest() {
  using Limits = std::numeric_limits<T>;
  const T start = std::is_floating_point_v<T> ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
  const auto step = [](T a, T v) { return v != v || (a == a && v > a) ? v : a; };
  return fold<T>(start, step, step, [](T a) { return a; });
}

template <class T>
auto smallest() {
  using Limits = std::numeric_limits<T>;
  const T start = std::is_floating_point_v<T> ? Limits::infinity() : Limits::max();
  const auto step = [](T a, T v) { return v != v || (a == a && v < a) ? v : a; };
  return fold<T>(start, step, step, [](T a) { return a; });
}

// body(fold) with what the operation is for elements of type T
template <class T, class Body>
void with_fold(ReduceOp op, double count, Body body) {
  using W = Wide<T>;
  const auto wide = [](T v) { return static_cast<W>(v); };
  const auto plus = [](W a, W b) { return a + b; };
  const auto add = [=](W a, T v) { return a + wide(v); };
  const auto add_square = [=](W a, T v) { return a + wide(v) * wide(v); };
  const auto narrow = [](W a) { return static_cast<T>(a); };
  constexpr bool real = std::is_floating_point_v<T>;
  switch (op) {
    case ReduceOp::sum: return body(fold<T>(W(0), add, plus, narrow));
    case ReduceOp::sum_square: return body(fold<T>(W(0), add_square, plus, narrow));
    case ReduceOp::prod: {
      const auto times = [](W a, W b) { return a * b; };
      return body(fold<T>(
          W(1), [=](W a, T v) { return a * wide(v); }, times, narrow));
    }
    case ReduceOp::max: return body(largest<T>());
    case ReduceOp::min: return body(smallest<T>());
    default: break;
  }
  if constexpr (real) {
    switch (op) {
      case ReduceOp::mean: return body(fold<T>(0.0, add, plus, [=](W a) { return static_cast<T>(a / count); }));
      case ReduceOp::l1:
        return body(fold<T>(
            0.0, [](W a, T v) { return a + std::abs(v); }, plus, narrow));
      case ReduceOp::l2: return body(fold<T>(0.0, add_square, plus, [](W a) { return static_cast<T>(std::sqrt(a)); }));
      case ReduceOp::log_sum: return body(fold<T>(0.0, add, plus, [](W a) { return static_cast<T>(std::log(a)); }));
      default: break;
    }
  }
  throw InternalError("a reduction of integers has no such operator");
}

// log(Σ exp(x)) in two walks over the elements
template <class T>
void log_sum_exp(const Split& s, const T* x, T* to, const Parallel& parallel) {
  for_outer(s, parallel, [&](std::int64_t from, std::int64_t at) {
    const T top = folded_row(largest<T>(), s.inner, s.inner_from, x + from);
    if (!std::isfinite(top)) {
      to[at] = top;
      return;
    }
    const auto add = [=](double a, T v) { return a + std::exp(static_cast<double>(v) - top); };
    const auto plus = [](double a, double b) { return a + b; };
    const auto sum = folded_row(fold<T>(0.0, add, plus, plus), s.inner, s.inner_from, x + from);
    to[at] = static_cast<T>(std::log(sum) + top);
  });
}

}  // namespace

void reduce(ReduceOp op, const Strided& x, const std::vector<int>& axes, const Strided& to, const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  Split s = split(x, axes, to);
  if (count_of(s.inner) == 0) std::fill(s.outer_from.begin(), s.outer_from.end(), 0);  // x may have no memory
  with_type(x.dtype, [&]<class T>() {
    const auto* in = static_cast<const T*>(x.data);
    auto* out = static_cast<T*>(to.data);
    if constexpr (std::is_floating_point_v<T>)
      if (op == ReduceOp::log_sum_exp) return log_sum_exp(s, in, out, parallel);
    with_fold<T>(op, static_cast<double>(count_of(s.inner)),
                 [&](const auto& f) { reduce_by(f, s, in, out, parallel); });
  });
}

void arg_reduce(bool smallest, bool last, int axis, const Strided& x, const Strided& to, const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const Split s = split(x, std::array{axis}, to);
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
