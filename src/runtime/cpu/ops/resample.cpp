#include "runtime/cpu/ops/resample.hpp"

#include <algorithm>
#include <vector>

#include "runtime/cpu/ops/copy.hpp"
#include "support/checked.hpp"

namespace unisono::cpu {

namespace {

// Along the middle one of three axes (outer, axis, inner), both dense
void resample_axis(const AxisTaps& t, std::int64_t outer, std::int64_t in_extent, std::int64_t inner, const double* in,
                   double* out, const Parallel& parallel) {
  const std::int64_t extent = std::ssize(t.first) - 1;
  parallel(outer * extent, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t o = row / extent, i = row % extent;
      double* to = out + row * inner;
      for (std::int64_t c = 0; c < inner; ++c) to[c] = 0;
      for (auto k = t.first[static_cast<std::size_t>(i)]; k < t.first[static_cast<std::size_t>(i) + 1]; ++k) {
        const double w = t.weights[static_cast<std::size_t>(k)];
        const double* from = in + (o * in_extent + t.places[static_cast<std::size_t>(k)]) * inner;
        for (std::int64_t c = 0; c < inner; ++c) to[c] += w * from[c];
      }
    }
  });
}

}  // namespace

std::size_t resample_bytes(const std::vector<std::size_t>& axes, const std::vector<AxisTaps>& taps, const Strided& x) {
  Extents64 shape = x.shape;
  const auto bytes = [&] {
    support::Checked product("bytes between the axes of a resampled tensor", sizeof(double));
    for (const std::int64_t extent : shape) product *= extent;
    return product;
  };
  support::Checked now = bytes();
  std::int64_t most = now.value();
  for (std::size_t n = 0; n < axes.size(); ++n) {
    shape[axes[n]] = std::ssize(taps[n].first) - 1;
    const support::Checked next = bytes();
    most = std::max(most, (now + next).value());
    now = next;
  }
  return static_cast<std::size_t>(most);
}

void resample(const std::vector<std::size_t>& axes, const std::vector<AxisTaps>& taps, const Strided& x,
              const Strided& to, const Parallel& parallel, std::byte* scratch) {
  if (count_of(to.shape) == 0) return;
  Extents64 shape = x.shape;
  // from the start and up to the end of the memory in turn: what is read and what is written lie apart
  auto* const begin = reinterpret_cast<double*>(scratch);
  double* const end = begin + resample_bytes(axes, taps, x) / sizeof(double);
  double* now = begin;
  {
    Odometer at(x.shape, x.strides);
    for (double* v = now; v != now + count_of(shape); ++v) {
      *v = static_cast<double>(static_cast<const float*>(x.data)[at.offset()]);
      at.next();
    }
  }
  for (std::size_t n = 0; n < axes.size(); ++n) {
    const std::size_t axis = axes[n];
    std::int64_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
    const std::int64_t extent = shape[axis];
    shape[axis] = std::ssize(taps[n].first) - 1;
    double* const next = now == begin ? end - count_of(shape) : begin;
    resample_axis(taps[n], outer, extent, inner, now, next, parallel);
    now = next;
  }
  Odometer at(to.shape, to.strides);
  for (const double* v = now; v != now + count_of(shape); ++v) {
    static_cast<float*>(to.data)[at.offset()] = static_cast<float>(*v);
    at.next();
  }
}

}  // namespace unisono::cpu
