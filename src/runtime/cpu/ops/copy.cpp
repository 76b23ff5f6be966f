#include "runtime/cpu/ops/copy.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>

#include "runtime/cpu/vector/unit.hpp"

namespace unisono::cpu {

namespace {

struct Axis {
  std::int64_t extent, from, to;
};
using Axes = support::SmallVector<Axis, 16>;

// The axes in order of falling stride in `to`, extents of 1 dropped and neighbours that run on merged
Axes merged_axes(const Extents64& shape, const Extents64& from, const Extents64& to) {
  Axes axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const auto place = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.to < to[i]; });
    axes.insert(place, {shape[i], from[i], to[i]});
  }
  Axes merged;
  for (const Axis& a : axes) {
    if (!merged.empty() && merged.back().to == a.to * a.extent && merged.back().from == a.from * a.extent) {
      merged.back() = {merged.back().extent * a.extent, a.from, a.to};
    } else {
      merged.push_back(a);
    }
  }
  return merged;
}

constexpr std::int64_t block = 16;  // 16 floats: a cache line

// A plane: rows × columns; `to` runs along the columns
template <class T>
void copy_plane(const Axis& rows, const Axis& cols, const T* from, T* to) {
  if (cols.from == 1 && cols.to == 1) {
    for (std::int64_t r = 0; r < rows.extent; ++r) std::copy_n(from + r * rows.from, cols.extent, to + r * rows.to);
    return;
  }
  if constexpr (std::is_same_v<T, float>)
    if (rows.from == 1 && cols.to == 1)
      return vector_unit().transpose(from, cols.from, to, rows.to, static_cast<std::size_t>(cols.extent),
                                     static_cast<std::size_t>(rows.extent));
  // in blocks, so that both sides use the cache lines that they touch
  for (std::int64_t r0 = 0; r0 < rows.extent; r0 += block)
    for (std::int64_t c0 = 0; c0 < cols.extent; c0 += block)
      for (std::int64_t r = r0; r < std::min(r0 + block, rows.extent); ++r)
        for (std::int64_t c = c0; c < std::min(c0 + block, cols.extent); ++c)
          to[r * rows.to + c * cols.to] = from[r * rows.from + c * cols.from];
}

// Copies all but the two innermost axes by counting, the two innermost as planes
template <class T>
void copy_axes(std::span<const Axis> axes, const T* from, T* to) {
  const Axis cols = axes.empty() ? Axis{1, 1, 1} : axes.back();
  const Axis unit{1, 0, 0};
  if (axes.size() <= 2) {
    copy_plane(axes.size() == 2 ? axes[0] : unit, cols, from, to);
    return;
  }
  // The plane is made of the columns and, among the other axes, the one along which `from` is densest
  std::size_t dense = 0;
  for (std::size_t i = 1; i + 1 < axes.size(); ++i)
    if (axes[i].from != 0 && (axes[dense].from == 0 || axes[i].from <= axes[dense].from)) dense = i;
  Axes outer;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i)
    if (i != dense) outer.push_back(axes[i]);
  Extents64 index(outer.size(), 0);
  while (true) {
    copy_plane(axes[dense], cols, from, to);
    std::size_t i = outer.size();
    while (i > 0) {
      --i;
      from += outer[i].from;
      to += outer[i].to;
      if (++index[i] < outer[i].extent) break;
      from -= outer[i].from * outer[i].extent;
      to -= outer[i].to * outer[i].extent;
      index[i] = 0;
      if (i == 0) return;
    }
  }
}

template <class T>
void copy_of(const Extents64& shape, const T* from, const Extents64& from_strides, T* to, const Extents64& to_strides,
             const Parallel& parallel) {
  if (count_of(shape) == 0) return;
  const Axes axes = merged_axes(shape, from_strides, to_strides);
  if (axes.empty()) {
    *to = *from;
    return;
  }
  // The threads share the longest of the outer axes, or a lone axis, or columns that are far longer than those: rows
  // that lie far apart, of which each thread writes some, fall out of its caches
  const bool long_columns =
      std::all_of(axes.begin(), axes.end() - 1, [&](const Axis& a) { return a.extent * 64 <= axes.back().extent; });
  const auto last = axes.size() > 1 && !long_columns ? axes.end() - 1 : axes.end();
  const auto longest =
      std::max_element(axes.begin(), last, [](const Axis& x, const Axis& y) { return x.extent < y.extent; });
  const auto at = static_cast<std::size_t>(longest - axes.begin());
  parallel(axes[at].extent, [&](std::int64_t begin, std::int64_t end) {
    Axes mine = axes;
    mine[at].extent = end - begin;
    copy_axes(mine, from + begin * axes[at].from, to + begin * axes[at].to);
  });
}

// Axes that both shapes are made of: (2,58,4) and (116,4) share 2, 58, 4. Nothing if an axis of one begins within an
// axis of the other, as in (2,3) and (3,2).
std::optional<Extents64> common_axes(const Extents64& a, const Extents64& b) {
  support::SmallVector<std::int64_t, 18> steps;  // elements from one index of an axis to the next
  for (const Extents64* shape : {&a, &b}) {
    std::int64_t step = 1;
    for (std::size_t i = shape->size(); i-- > 0;) steps.push_back(step), step *= (*shape)[i];
    steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  Extents64 axes;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (steps[i] == 0 || steps[i + 1] % steps[i] != 0) return std::nullopt;
    axes.insert(axes.begin(), steps[i + 1] / steps[i]);
  }
  return axes;
}

// Strides along `axes`, into which each axis of `shape` divides
Extents64 divided_strides(const Extents64& shape, const Extents64& strides, const Extents64& axes) {
  Extents64 result(axes.size(), 0);
  std::size_t at = axes.size();
  for (std::size_t i = shape.size(); i-- > 0;) {
    std::int64_t inner = 1;
    while (inner != shape[i]) {
      --at;
      result[at] = strides[i] * inner;
      inner *= axes[at];
    }
  }
  return result;
}

template <class T>
void reshaped_of(const Extents64& from_shape, const T* from, const Extents64& from_strides, const Extents64& to_shape,
                 T* to, const Extents64& to_strides, const Parallel& parallel) {
  const std::int64_t count = count_of(from_shape);
  if (count == 0) return;
  if (const auto axes = common_axes(from_shape, to_shape)) {
    return copy_of(*axes, from, divided_strides(from_shape, from_strides, *axes), to,
                   divided_strides(to_shape, to_strides, *axes), parallel);
  }
  parallel(count, [&](std::int64_t begin, std::int64_t end) {
    Odometer source(from_shape, from_strides), target(to_shape, to_strides);
    source.seek(begin);
    target.seek(begin);
    for (std::int64_t i = begin; i < end; ++i) {
      to[target.offset()] = from[source.offset()];
      source.next();
      target.next();
    }
  });
}

// Calls f with pointers to words as wide as an element
template <class F>
void as_words(std::size_t size, const void* from, void* to, F f) {
  switch (size) {
    case 1: return f(static_cast<const std::uint8_t*>(from), static_cast<std::uint8_t*>(to));
    case 2: return f(static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(to));
    case 4: return f(static_cast<const float*>(from), static_cast<float*>(to));
    default: return f(static_cast<const std::uint64_t*>(from), static_cast<std::uint64_t*>(to));
  }
}

}  // namespace

void copy(const Extents64& shape, const float* from, const Extents64& from_strides, float* to,
          const Extents64& to_strides, const Parallel& parallel) {
  copy_of(shape, from, from_strides, to, to_strides, parallel);
}

void copy_elements(std::size_t size, const Extents64& shape, const void* from, const Extents64& from_strides, void* to,
                   const Extents64& to_strides, const Parallel& parallel) {
  as_words(size, from, to, [&](const auto* source, auto* target) {
    copy_of(shape, source, from_strides, target, to_strides, parallel);
  });
}

void copy_reshaped(std::size_t size, const Extents64& from_shape, const void* from, const Extents64& from_strides,
                   const Extents64& to_shape, void* to, const Extents64& to_strides, const Parallel& parallel) {
  as_words(size, from, to, [&](const auto* source, auto* target) {
    reshaped_of(from_shape, source, from_strides, to_shape, target, to_strides, parallel);
  });
}

}  // namespace unisono::cpu
