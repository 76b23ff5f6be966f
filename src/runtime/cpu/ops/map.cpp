#include "runtime/cpu/ops/map.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "runtime/cpu/ops/map_rows.hpp"

namespace unisono::cpu {

namespace {

// An index space of few axes: neighbours that run on in all tensors are merged. The last axis is the row.
struct Space {
  Extents64 shape;
  support::SmallVector<Extents64, 4> strides;  // bytes, by tensor
};

Space merged(std::span<const Strided> inputs, const Strided& to) {
  support::SmallVector<const Strided*, 4> tensors;
  for (const Strided& x : inputs) tensors.push_back(&x);
  tensors.push_back(&to);
  support::SmallVector<std::size_t, 16> order;  // by falling stride of the result
  for (std::size_t i = 0; i < to.shape.size(); ++i) {
    if (to.shape[i] == 1) continue;
    const auto falls = [&](std::size_t axis) { return to.strides[axis] < to.strides[i]; };
    order.insert(std::find_if(order.begin(), order.end(), falls), i);
  }
  Space s;
  s.strides.assign(tensors.size(), {});
  for (const std::size_t axis : order) {
    const std::int64_t extent = to.shape[axis];
    bool runs_on = !s.shape.empty();
    for (std::size_t t = 0; runs_on && t < tensors.size(); ++t)
      runs_on = s.strides[t].back() ==
                tensors[t]->strides[axis] * static_cast<std::int64_t>(size_of(tensors[t]->dtype)) * extent;
    if (!runs_on) s.shape.push_back(1);
    s.shape.back() *= extent;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::int64_t step = tensors[t]->strides[axis] * static_cast<std::int64_t>(size_of(tensors[t]->dtype));
      if (runs_on) {
        s.strides[t].back() = step;
      } else {
        s.strides[t].push_back(step);
      }
    }
  }
  if (s.shape.empty()) {
    s.shape = {1};
    for (Extents64& t : s.strides) t = {0};
  }
  return s;
}

void walk(const Space& s, std::span<const Strided> inputs, const Strided& to, RowFunction row, std::int64_t begin,
          std::int64_t end, bool split_row) {
  const std::size_t n = s.strides.size(), last = s.shape.size() - 1;
  std::array<std::int64_t, 4> steps{};
  for (std::size_t t = 0; t < n; ++t) steps[t] = s.strides[t][last];
  const Extents64 outer(s.shape.begin(), s.shape.end() - 1);
  // the rows that are left out repeat the last tensor's
  std::array<Extents64, 4> outer_strides;
  for (std::size_t t = 0; t < outer_strides.size(); ++t) {
    const Extents64& all = s.strides[std::min(t, n - 1)];
    outer_strides[t] = {all.begin(), all.end() - 1};
  }
  std::array places{Odometer(outer, outer_strides[0]), Odometer(outer, outer_strides[1]),
                    Odometer(outer, outer_strides[2]), Odometer(outer, outer_strides[3])};
  const auto own = std::span(places).first(n);
  if (!split_row)
    for (Odometer& p : own) p.seek(begin);
  const auto at = [&](std::size_t t) {
    auto* data = static_cast<char*>(t + 1 < n ? inputs[t].data : to.data);
    return data + places[t].offset() + (split_row ? begin * steps[t] : 0);
  };
  const std::int64_t rows = split_row ? 1 : end - begin, length = split_row ? end - begin : s.shape[last];
  for (std::int64_t r = 0; r < rows; ++r) {
    std::array<char*, 4> pointers{};
    for (std::size_t t = 0; t < n; ++t) pointers[t] = at(t);
    row(length, pointers.data(), steps.data());
    for (Odometer& p : own) p.next();
  }
}

}  // namespace

void map(MapOp op, std::span<const Strided> inputs, const Strided& to, const Parallel& parallel) {
  if (count_of(to.shape) == 0) return;
  const DType from = inputs[op == MapOp::select ? 1 : 0].dtype;
  const RowFunction row = op == MapOp::cast ? cast_row(from, to.dtype) : map_row(op, from);
  const Space s = merged(inputs, to);
  const std::int64_t rows = count_of(s.shape) / s.shape.back();
  const bool split_row = rows == 1 && s.shape.back() >= 4096;
  if (rows == 1 && !split_row) return walk(s, inputs, to, row, 0, 1, false);
  parallel(split_row ? s.shape.back() : rows,
           [&](std::int64_t begin, std::int64_t end) { walk(s, inputs, to, row, begin, end, split_row); });
}

}  // namespace unisono::cpu
