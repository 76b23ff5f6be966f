// Images and volumes at places that a grid names, one output a thread. Places and weights are float64, as the CPU's.
#pragma once
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// Places along one axis with their weights; none outside of zeros.
struct GridTaps {
  static constexpr int kMost = 4;
  int places[kMost];
  double weights[kMost];
  int count = 0;

  UNISONO_DEVICE void add_inside(double place, double last, double weight) {
    if (place >= 0 && place <= last) places[count] = int(place), weights[count++] = weight;
  }
};

// To the border, or reflected there as often as it takes: at the centres of the last pixels with align_corners, at
// their edges without. NaN becomes the last place.
UNISONO_DEVICE double moved_inside(const GridParams& p, double last, double at) {
  if (p.reflection) {
    const double low = p.align_corners ? 0 : -0.5, span = p.align_corners ? last : last + 1;
    if (span == 0) return 0;
    const double distance = fabs(at - low), rest = fmod(distance, span);
    const bool back = fmod(floor(distance / span), 2.0) != 0;
    at = back ? span - rest + low : rest + low;
  }
  return at != at ? last : at < 0 ? 0 : at > last ? last : at;
}

// Keys' cubic convolution over four neighbours, each of which may be outside.
UNISONO_DEVICE double keys_far(double x) {
  constexpr double a = -0.75;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}
UNISONO_DEVICE double keys_near(double x) {
  constexpr double a = -0.75;
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
UNISONO_DEVICE void add_cubic(GridTaps& taps, const GridParams& p, double last, double at) {
  if (at - at != 0) {  // no number
    if (!p.zeros) taps.add_inside(moved_inside(p, last, at), last, 1);
    return;
  }
  const double low = floor(at), t = at - low;
  const double weights[GridTaps::kMost] = {keys_far(t + 1), keys_near(t), keys_near(1 - t), keys_far(2 - t)};
  for (int i = 0; i < GridTaps::kMost; ++i) {
    const double place = low - 1 + i;
    taps.add_inside(p.zeros ? place : floor(moved_inside(p, last, place)), last, weights[i]);
  }
}

// g: from -1 to 1 across the axis.
UNISONO_DEVICE GridTaps grid_taps(const GridParams& p, int extent, double g) {
  GridTaps taps;
  const double n = extent, last = n - 1;
  double at = p.align_corners ? (g + 1) / 2 * last : ((g + 1) * n - 1) / 2;
  if (p.cubic) return add_cubic(taps, p, last, at), taps;
  if (!p.zeros) at = moved_inside(p, last, at);
  if (!(at > -1 && at < n)) return taps;  // NaN as well
  if (p.nearest) return taps.add_inside(rint(at), last, 1), taps;
  const double low = floor(at);
  taps.add_inside(low, last, 1 - (at - low));
  taps.add_inside(low + 1, last, at - low);
  return taps;
}

template <class From, class Grid, class To>
UNISONO_DEVICE void grid_sample(const GridParams& p) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const auto at = offsets_of(p.space, u32(i), p.from.strides, p.grid.strides, p.to.strides);
    GridTaps taps[kGridAxes];
    u32 combinations = 1;
    for (int axis = 0; axis < p.axes; ++axis) {  // the grid names the innermost axis first
      const double g = load<Grid>(p.grid.memory, at.of[1] + (p.axes - 1 - axis) * p.grid_step);
      taps[axis] = grid_taps(p, p.extents[axis], g);
      combinations *= u32(taps[axis].count);
    }
    double sum = 0;
    for (u32 combination = 0; combination < combinations; ++combination) {
      i64 offset = at.of[0];
      double weight = 1;
      u32 rest = combinations, left = combination;
      for (int axis = 0; axis < p.axes; ++axis) {
        rest /= u32(taps[axis].count);
        const u32 tap = left / rest;
        left -= tap * rest;
        offset += taps[axis].places[tap] * p.steps[axis], weight *= taps[axis].weights[tap];
      }
      sum += weight * double(load<From>(p.from.memory, offset));
    }
    store<To>(p.to.memory, at.of[2], NumberOf<To>(sum));
  }
}

}  // namespace unisono::tensor
