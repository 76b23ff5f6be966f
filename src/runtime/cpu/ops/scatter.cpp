#include <type_traits>

#include "runtime/cpu/ops/indices.hpp"
#include "runtime/cpu/ops/word.hpp"

namespace unisono::cpu {

namespace {

// What becomes of an element and an update. Integers wrap: their sums and products are those of an unsigned type.
struct Replace {
  template <class T>
  T operator()(T, T y) const {
    return y;
  }
};
struct AddUpdate {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
    else
      return x + y;
  }
};
struct MultiplyUpdate {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
    else
      return x * y;
  }
};
struct Least {  // a NaN in either makes a NaN
  template <class T>
  T operator()(T x, T y) const {
    return x != x || x < y ? x : y;
  }
};
struct Greatest {
  template <class T>
  T operator()(T x, T y) const {
    return x != x || x > y ? x : y;
  }
};

// f.template operator()<T>(reduction), for the C++ type of the elements; replacing takes any word as long
template <class F>
void with_reduction(ScatterReduction reduction, DType t, F&& f) {
  if (reduction == ScatterReduction::none)
    return with_word(size_of(t), [&]<class T>() { f.template operator()<T>(Replace{}); });
  with_type(t, [&]<class T>() {
    switch (reduction) {
      case ScatterReduction::add: return f.template operator()<T>(AddUpdate{});
      case ScatterReduction::mul: return f.template operator()<T>(MultiplyUpdate{});
      case ScatterReduction::min: return f.template operator()<T>(Least{});
      default: return f.template operator()<T>(Greatest{});
    }
  });
}

Extents64 all_but(Extents64 list, int axis) {
  list.erase(list.begin() + axis);
  return list;
}

}  // namespace

// Lines along the axis share no element, and are shared out
void scatter_elements(int axis, ScatterReduction reduction, const Strided& indices, const Strided& updates,
                      const Strided& to, const Parallel& parallel) {
  if (count_of(indices.shape) == 0) return;
  const auto a = static_cast<std::size_t>(axis);
  const Extents64 lines = all_but(indices.shape, axis), at = all_but(indices.strides, axis),
                  from = all_but(updates.strides, axis), target = all_but(to.strides, axis);
  with_reduction(reduction, to.dtype, [&]<class T>(auto reduce) {
    parallel(count_of(lines), [&](std::int64_t begin, std::int64_t end) {
      Odometer index(lines, at), source(lines, from), place(lines, target);
      for (Odometer* o : {&index, &source, &place}) o->seek(begin);
      for (std::int64_t line = begin; line < end; ++line, index.next(), source.next(), place.next()) {
        const T* in = static_cast<const T*>(updates.data) + source.offset();
        T* out = static_cast<T*>(to.data) + place.offset();
        for (std::int64_t i = 0; i < indices.shape[a]; ++i) {
          const std::int64_t given = index_at(indices, index.offset() + i * indices.strides[a]);
          T& element = out[checked_place(given, to.shape[a]) * to.strides[a]];
          element = reduce(element, in[i * updates.strides[a]]);
        }
      }
    });
  });
}

// Every thread takes all tuples, and some rows of each slice
void scatter_nd(ScatterReduction reduction, const Strided& indices, const Strided& updates, const Strided& to,
                const Parallel& parallel) {
  const std::size_t tuples = indices.shape.size() - 1;
  const auto named = static_cast<std::size_t>(indices.shape.back());
  const Extents64 outer(indices.shape.begin(), indices.shape.end() - 1);
  // the slice as rows of elements; one element is a row of one
  Extents64 rows(to.shape.begin() + static_cast<std::ptrdiff_t>(named), to.shape.end());
  Extents64 target(to.strides.begin() + static_cast<std::ptrdiff_t>(named), to.strides.end());
  Extents64 from(updates.strides.begin() + static_cast<std::ptrdiff_t>(tuples), updates.strides.end());
  const std::int64_t row = rows.empty() ? 1 : rows.back(), step = rows.empty() ? 1 : target.back(),
                     from_step = rows.empty() ? 1 : from.back();
  if (!rows.empty()) rows.pop_back();
  const std::int64_t count = count_of(outer);
  with_reduction(reduction, to.dtype, [&]<class T>(auto reduce) {
    parallel(count_of(rows), [&](std::int64_t begin, std::int64_t end) {
      Odometer at(outer, indices.strides), given(outer, updates.strides);
      for (std::int64_t i = 0; i < count; ++i, at.next(), given.next()) {
        std::int64_t place = 0;
        for (std::size_t d = 0; d < named; ++d) {
          const std::int64_t offset = at.offset() + static_cast<std::int64_t>(d) * indices.strides.back();
          place += checked_place(index_at(indices, offset), to.shape[d]) * to.strides[d];
        }
        Odometer in(rows, from), out(rows, target);
        in.seek(begin);
        out.seek(begin);
        for (std::int64_t r = begin; r < end; ++r, in.next(), out.next()) {
          const T* x = static_cast<const T*>(updates.data) + given.offset() + in.offset();
          T* y = static_cast<T*>(to.data) + place + out.offset();
          for (std::int64_t k = 0; k < row; ++k) y[k * step] = reduce(y[k * step], x[k * from_step]);
        }
      }
    });
  });
}

}  // namespace unisono::cpu
