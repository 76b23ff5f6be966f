#include <algorithm>

#include "runtime/cpu/ops/indices.hpp"
#include "runtime/cpu/ops/word.hpp"

namespace unisono::cpu {

namespace {

Extents64 without(Extents64 list, int axis) {
  list.erase(list.begin() + axis);
  return list;
}

Extents64 behind(const Extents64& list, std::size_t first) {
  return {list.begin() + static_cast<std::ptrdiff_t>(first), list.end()};
}

// A slice of to = the same slice of x, row by row
template <class T>
void copy_slice(const Extents64& shape, const T* from, const Extents64& from_strides, T* to,
                const Extents64& to_strides) {
  if (shape.empty()) {
    *to = *from;
    return;
  }
  const std::int64_t row = shape.back(), step = from_strides.back(), to_step = to_strides.back();
  const Extents64 outer(shape.begin(), shape.end() - 1);
  Odometer source(outer, from_strides), target(outer, to_strides);
  const std::int64_t rows = count_of(outer);
  for (std::int64_t r = 0; r < rows; ++r, source.next(), target.next()) {
    const T* a = from + source.offset();
    T* b = to + target.offset();
    if (step == 1 && to_step == 1) {
      std::copy_n(a, row, b);
    } else {
      for (std::int64_t i = 0; i < row; ++i) b[i * to_step] = a[i * step];
    }
  }
}

}  // namespace

void gather_elements(int axis, const Strided& x, const Strided& indices, const Strided& to, const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const auto a = static_cast<std::size_t>(axis);
  const Extents64 lines = without(to.shape, axis), from = without(x.strides, axis), at = without(indices.strides, axis),
                  target = without(to.strides, axis);
  const std::int64_t extent = x.shape[a], length = to.shape[a];
  with_word(size_of(x.dtype), [&]<class T>() {
    parallel(count_of(lines), [&](std::int64_t begin, std::int64_t end) {
      Odometer source(lines, from), index(lines, at), place(lines, target);
      for (Odometer* o : {&source, &index, &place}) o->seek(begin);
      for (std::int64_t line = begin; line < end; ++line, source.next(), index.next(), place.next()) {
        const T* in = static_cast<const T*>(x.data) + source.offset();
        T* out = static_cast<T*>(to.data) + place.offset();
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t given = index_at(indices, index.offset() + i * indices.strides[a]);
          out[i * to.strides[a]] = in[checked_place(given, extent) * x.strides[a]];
        }
      }
    });
  });
}

void gather_nd(int batch, const Strided& x, const Strided& indices, const Strided& to, const Parallel& parallel) {
  const auto b = static_cast<std::size_t>(batch);
  const auto named = static_cast<std::size_t>(indices.shape.back());
  const std::int64_t step = indices.strides.back();
  const std::size_t tuples = indices.shape.size() - 1;
  const Extents64 outer(indices.shape.begin(), indices.shape.end() - 1);
  const Extents64 slice = behind(x.shape, b + named), slice_from = behind(x.strides, b + named),
                  slice_to = behind(to.strides, tuples);
  Extents64 batch_strides(tuples, 0);  // strides of x along the axes of the tuples
  std::copy_n(x.strides.begin(), b, batch_strides.begin());
  if (count_of(slice) == 0) return;
  with_word(size_of(x.dtype), [&]<class T>() {
    parallel(count_of(outer), [&](std::int64_t begin, std::int64_t end) {
      Odometer at(outer, indices.strides), target(outer, to.strides), image(outer, batch_strides);
      for (Odometer* o : {&at, &target, &image}) o->seek(begin);
      for (std::int64_t i = begin; i < end; ++i, at.next(), target.next(), image.next()) {
        std::int64_t from = image.offset();
        for (std::size_t d = 0; d < named; ++d) {
          const std::int64_t given = index_at(indices, at.offset() + static_cast<std::int64_t>(d) * step);
          from += checked_place(given, x.shape[b + d]) * x.strides[b + d];
        }
        copy_slice(slice, static_cast<const T*>(x.data) + from, slice_from, static_cast<T*>(to.data) + target.offset(),
                   slice_to);
      }
    });
  });
}

}  // namespace unisono::cpu
