#include "runtime/cpu/ops/take.hpp"

#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/ops/indices.hpp"

namespace unisono::cpu {

namespace {

template <class T>
void take_of(const std::vector<std::vector<std::int64_t>>& tables, const Strided& x, const Strided& to,
             const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const auto* in = static_cast<const T*>(x.data);
  auto* out = static_cast<T*>(to.data);
  if (to.shape.empty()) {
    *out = *in;
    return;
  }
  // the axis along which the result is dense is the row
  std::size_t row = to.shape.size() - 1;
  for (std::size_t i = 0; i < to.shape.size(); ++i)
    if (to.shape[i] > 1 && to.strides[i] == 1) row = i;
  Extents64 outer = to.shape;
  outer[row] = 1;
  parallel(count_of(outer), [&](std::int64_t begin, std::int64_t end) {
    Extents64 at(outer.size());
    for (std::int64_t n = begin; n < end; ++n) {
      std::int64_t number = n, from = 0, offset = 0;
      for (std::size_t i = outer.size(); i-- > 0;) {
        if (i == row) continue;
        const std::int64_t k = number % outer[i];
        number /= outer[i];
        from += tables[i][static_cast<std::size_t>(k)] * x.strides[i];
        offset += k * to.strides[i];
      }
      for (std::int64_t k = 0; k < to.shape[row]; ++k)
        out[offset + k * to.strides[row]] = in[from + tables[row][static_cast<std::size_t>(k)] * x.strides[row]];
    }
  });
}

}  // namespace

void take(const std::vector<std::vector<std::int64_t>>& tables, const Strided& x, const Strided& to,
          const Parallel& parallel) {
  switch (size_of(x.dtype)) {
    case 1: return take_of<std::uint8_t>(tables, x, to, parallel);
    case 2: return take_of<std::uint16_t>(tables, x, to, parallel);
    case 4: return take_of<std::uint32_t>(tables, x, to, parallel);
    default: return take_of<std::uint64_t>(tables, x, to, parallel);
  }
}

void gather(int axis, const Strided& x, const Strided& indices, const Strided& to, const Parallel& parallel) {
  const auto a = static_cast<std::size_t>(axis);
  const std::size_t size = size_of(x.dtype), rank = indices.shape.size();
  // one index's slice: the axes before and after
  Extents64 shape = x.shape, from = x.strides, target = to.strides;
  shape.erase(shape.begin() + axis);
  from.erase(from.begin() + axis);
  target.erase(target.begin() + axis, target.begin() + axis + static_cast<std::ptrdiff_t>(rank));
  const Extents64 index_target(to.strides.begin() + axis,
                               to.strides.begin() + axis + static_cast<std::ptrdiff_t>(rank));
  parallel(count_of(indices.shape), [&](std::int64_t begin, std::int64_t end) {
    Odometer at(indices.shape, indices.strides), out(indices.shape, index_target);
    at.seek(begin);
    out.seek(begin);
    for (std::int64_t i = begin; i < end; ++i, at.next(), out.next()) {
      const std::int64_t place = checked_place(index_at(indices, at.offset()), x.shape[a]);
      copy_elements(size, shape,
                    static_cast<const char*>(x.data) + place * x.strides[a] * static_cast<std::int64_t>(size), from,
                    static_cast<char*>(to.data) + out.offset() * static_cast<std::int64_t>(size), target, serial);
    }
  });
}

}  // namespace unisono::cpu
