#include "runtime/cpu/ops/grid_sample.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace unisono::cpu {

namespace {

constexpr double cubic_a = -0.75;

// Places along one axis with their weights; none outside of zeros
struct GridTaps {
  std::array<std::int64_t, 4> places{};
  std::array<double, 4> weights{};
  std::size_t count = 0;

  void add(std::int64_t place, double weight) {
    places[count] = place;
    weights[count++] = weight;
  }
};

class AxisSampler {
 public:
  AxisSampler(const operators::GridSample& how, std::int64_t extent)
      : how_(how), extent_(extent), last_(static_cast<double>(extent - 1)) {}

  GridTaps operator()(double g) const {
    GridTaps taps;
    const auto n = static_cast<double>(extent_);
    double at = how_.align_corners ? (g + 1) / 2 * last_ : ((g + 1) * n - 1) / 2;
    if (how_.mode == GridMode::cubic) return cubic(at);
    if (how_.padding != GridPadding::zeros) at = moved_inside(at);
    if (!(at > -1 && at < n)) return taps;  // NaN as well
    if (how_.mode == GridMode::nearest) {
      add_inside(taps, std::nearbyint(at), 1);
      return taps;
    }
    const double low = std::floor(at);
    add_inside(taps, low, 1 - (at - low));
    add_inside(taps, low + 1, at - low);
    return taps;
  }

 private:
  void add_inside(GridTaps& taps, double place, double weight) const {
    if (place >= 0 && place <= last_) taps.add(static_cast<std::int64_t>(place), weight);
  }

  // To the border, or reflected there as often as it takes: at the centres of the last pixels with align_corners, at
  // their edges without. NaN becomes the last place.
  double moved_inside(double at) const {
    if (how_.padding == GridPadding::reflection) {
      const double low = how_.align_corners ? 0 : -0.5, span = how_.align_corners ? last_ : last_ + 1;
      if (span == 0) return 0;
      const double distance = std::abs(at - low), rest = std::fmod(distance, span);
      const bool back = std::fmod(std::floor(distance / span), 2) != 0;
      at = back ? span - rest + low : rest + low;
    }
    return std::isnan(at) ? last_ : std::clamp(at, 0.0, last_);
  }

  // Keys' cubic convolution over four neighbours, each of which may be outside
  GridTaps cubic(double at) const {
    GridTaps taps;
    if (!std::isfinite(at)) {
      if (how_.padding != GridPadding::zeros) add_inside(taps, moved_inside(at), 1);
      return taps;
    }
    const double low = std::floor(at), t = at - low;
    const auto far = [](double x) { return ((cubic_a * x - 5 * cubic_a) * x + 8 * cubic_a) * x - 4 * cubic_a; };
    const auto near = [](double x) { return ((cubic_a + 2) * x - (cubic_a + 3)) * x * x + 1; };
    const std::array<double, 4> weights{far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (std::size_t i = 0; i < 4; ++i) {
      const double place = low - 1 + static_cast<double>(i);
      add_inside(taps, how_.padding == GridPadding::zeros ? place : std::floor(moved_inside(place)), weights[i]);
    }
    return taps;
  }

  const operators::GridSample& how_;
  std::int64_t extent_;
  double last_;
};

// The offsets in an image of all combinations of the axes' taps, with their weights: at most 4 of each of 2 axes, or 2
// of each of 3
struct Neighbours {
  std::array<std::int64_t, 16> offsets{};
  std::array<double, 16> weights{};
  std::size_t count = 1;

  Neighbours() { weights[0] = 1; }
  void cross(const GridTaps& taps, std::int64_t stride) {
    const Neighbours before = *this;
    count = 0;
    for (std::size_t i = 0; i < before.count; ++i)
      for (std::size_t k = 0; k < taps.count; ++k) {
        offsets[count] = before.offsets[i] + taps.places[k] * stride;
        weights[count++] = before.weights[i] * taps.weights[k];
      }
  }
};

template <class Element, class Place>
void sample(const operators::GridSample& how, const Strided& x, const Strided& grid, const Strided& to,
            const Parallel& parallel) {
  const std::size_t axes = x.shape.size() - 2;
  // of an image the last one is there twice
  const std::array samplers{AxisSampler(how, x.shape[2]), AxisSampler(how, x.shape[3]),
                            AxisSampler(how, x.shape[1 + axes])};
  // the places of all images: what the grid and the result have in common
  const Extents64 places(grid.shape.begin(), grid.shape.end() - 1);
  Extents64 target = to.strides, image(places.size(), 0);
  target.erase(target.begin() + 1);
  image[0] = x.strides[0];
  const std::int64_t channels = x.shape[1], from_step = x.strides[1], to_step = to.strides[1];
  parallel(count_of(places), [&](std::int64_t begin, std::int64_t end) {
    Odometer at(places, grid.strides), out(places, target), from(places, image);
    for (Odometer* o : {&at, &out, &from}) o->seek(begin);
    for (std::int64_t p = begin; p < end; ++p, at.next(), out.next(), from.next()) {
      Neighbours near;
      for (std::size_t i = 0; i < axes; ++i) {  // the grid names the innermost axis first
        const auto place = static_cast<std::int64_t>(axes - 1 - i);
        const Place g = static_cast<const Place*>(grid.data)[at.offset() + place * grid.strides.back()];
        near.cross(samplers[i](g), x.strides[2 + i]);
      }
      const Element* in = static_cast<const Element*>(x.data) + from.offset();
      Element* result = static_cast<Element*>(to.data) + out.offset();
      for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (std::size_t k = 0; k < near.count; ++k)
          sum += near.weights[k] * static_cast<double>(in[near.offsets[k] + c * from_step]);
        result[c * to_step] = static_cast<Element>(sum);
      }
    }
  });
}

}  // namespace

void grid_sample(const operators::GridSample& how, const Strided& x, const Strided& grid, const Strided& to,
                 const Parallel& parallel) {
  const auto with_places = [&]<class Element>(Element) {
    grid.dtype == DType::f64 ? sample<Element, double>(how, x, grid, to, parallel)
                             : sample<Element, float>(how, x, grid, to, parallel);
  };
  x.dtype == DType::f64 ? with_places(double()) : with_places(float());
}

}  // namespace unisono::cpu
