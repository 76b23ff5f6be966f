#include "runtime/cpu/ops/order.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <type_traits>

#include "runtime/cpu/ops/word.hpp"

namespace unisono::cpu {

namespace {

// body(x, y) for the first element of every line along the axis
template <class In, class Out, class F>
void for_lines(int axis, const Strided& x, const Strided& to, const Parallel& parallel, F body) {
  Extents64 lines = to.shape, from = x.strides, target = to.strides;
  for (Extents64* list : {&lines, &from, &target}) list->erase(list->begin() + axis);
  parallel(count_of(lines), [&](std::int64_t begin, std::int64_t end) {
    Odometer source(lines, from), place(lines, target);
    source.seek(begin);
    place.seek(begin);
    for (std::int64_t i = begin; i < end; ++i, source.next(), place.next())
      body(static_cast<const In*>(x.data) + source.offset(), static_cast<Out*>(to.data) + place.offset());
  });
}

template <class T>
bool above(T x, T y) {  // a NaN is above every number
  return x != x ? y == y : x > y;
}

}  // namespace

void top_k(int axis, bool smallest, const Strided& x, const Strided& to, const Parallel& parallel,
           const OperatorScratch& scratch) {
  if (count_of(to.shape) == 0) return;
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t step = x.strides[a], k = to.shape[a];
  ScratchPieces pieces(scratch, top_k_bytes(k));
  with_type(x.dtype, [&]<class T>() {
    for_lines<T, std::int64_t>(axis, x, to, parallel, [&](const T* in, std::int64_t* out) {
      const auto lease = pieces.take();
      const std::span order(reinterpret_cast<std::int64_t*>(lease.data()), static_cast<std::size_t>(k));
      std::iota(order.begin(), order.end(), 0);
      const auto before = [&](std::int64_t i, std::int64_t j) {
        const T p = in[i * step], q = in[j * step];
        if (smallest ? above(q, p) : above(p, q)) return true;
        return !(smallest ? above(p, q) : above(q, p)) && i < j;
      };
      // the best so far are a heap with the last of them in front
      std::make_heap(order.begin(), order.end(), before);
      for (std::int64_t i = k; i < x.shape[a]; ++i) {
        if (!before(i, order.front())) continue;
        std::pop_heap(order.begin(), order.end(), before);
        order.back() = i;
        std::push_heap(order.begin(), order.end(), before);
      }
      std::sort_heap(order.begin(), order.end(), before);
      for (std::int64_t i = 0; i < k; ++i) out[i * to.strides[a]] = order[static_cast<std::size_t>(i)];
    });
  });
}

void cumulative_sum(int axis, bool exclusive, bool reverse, const Strided& x, const Strided& to,
                    const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t n = x.shape[a];
  with_type(x.dtype, [&]<class T>() {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    for_lines<T, T>(axis, x, to, parallel, [&](const T* in, T* out) {
      Wide sum = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t i = reverse ? n - 1 - k : k;
        const Wide next = sum + static_cast<Wide>(in[i * x.strides[a]]);
        out[i * to.strides[a]] = static_cast<T>(exclusive ? sum : next);
        sum = next;
      }
    });
  });
}

void triangle(bool upper, std::int64_t diagonal, const Strided& x, const Strided& to, const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const std::size_t rank = to.shape.size();
  const std::int64_t rows = to.shape[rank - 2], columns = to.shape[rank - 1];
  const std::int64_t from = x.strides[rank - 1], step = to.strides[rank - 1];
  const Extents64 lines(to.shape.begin(), to.shape.end() - 1);
  with_word(size_of(x.dtype), [&]<class T>() {
    parallel(count_of(lines), [&](std::int64_t begin, std::int64_t end) {
      Odometer source(lines, x.strides), target(lines, to.strides);
      source.seek(begin);
      target.seek(begin);
      for (std::int64_t line = begin; line < end; ++line, source.next(), target.next()) {
        const auto* in = static_cast<const T*>(x.data) + source.offset();
        auto* out = static_cast<T*>(to.data) + target.offset();
        const std::int64_t row = line % rows;
        for (std::int64_t c = 0; c < columns; ++c) {
          const bool kept = upper ? c - row >= diagonal : c - row <= diagonal;
          out[c * step] = kept ? in[c * from] : T{0};
        }
      }
    });
  });
}

}  // namespace unisono::cpu
