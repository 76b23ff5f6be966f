/// Resampling: linear along each axis, whatever the weights are.

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"
#include "network/resample_taps.hpp"
#include "network/resize_tables.hpp"

namespace unisono::autodiff {

namespace {

// Weights of input pixels (columns) in output pixels (rows) along an axis
std::vector<float> weights_of(const cpu::AxisTable& table, std::int64_t inputs) {
  std::vector<float> weights(table.low.size() * static_cast<std::size_t>(inputs), 0.0f);
  for (std::size_t i = 0; i < table.low.size(); ++i) {
    float* const row = weights.data() + i * static_cast<std::size_t>(inputs);
    if (table.weight.empty()) {
      row[table.low[i]] = 1;
      continue;
    }
    row[table.low[i]] += 1 - table.weight[i];
    row[table.high[i]] += table.weight[i];
  }
  return weights;
}

// How often each pixel is repeated, if all are alike, and next to each other; else 0
std::int64_t repeats_of(const cpu::AxisTable& table, std::int64_t inputs) {
  const auto outputs = static_cast<std::int64_t>(table.low.size());
  if (!table.weight.empty() || inputs == 0 || outputs % inputs != 0) return 0;
  const std::int64_t times = outputs / inputs;
  for (std::int64_t i = 0; i < outputs; ++i)
    if (table.low[static_cast<std::size_t>(i)] != i / times) return 0;
  return times;
}

// The same of a Resample; an output element outside the input has none
std::vector<float> weights_of(const cpu::AxisTaps& taps, const std::vector<bool>& outside, std::int64_t inputs) {
  const std::size_t outputs = taps.first.size() - 1;
  std::vector<double> weights(outputs * static_cast<std::size_t>(inputs), 0.0);
  for (std::size_t i = 0; i < outputs; ++i) {
    if (!outside.empty() && outside[i]) continue;
    for (auto k = static_cast<std::size_t>(taps.first[i]); k < static_cast<std::size_t>(taps.first[i + 1]); ++k)
      weights[i * static_cast<std::size_t>(inputs) + static_cast<std::size_t>(taps.places[k])] += taps.weights[k];
  }
  return {weights.begin(), weights.end()};
}

// How often each element is repeated, if all are alike, and next to each other; else 0
std::int64_t repeats_of(const cpu::AxisTaps& taps, std::int64_t inputs) {
  const auto outputs = std::ssize(taps.first) - 1;
  if (inputs == 0 || std::ssize(taps.places) != outputs || outputs % inputs != 0) return 0;
  const std::int64_t times = outputs / inputs;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (taps.places[at] != i / times || taps.weights[at] != 1 || taps.first[at] != i) return 0;
  }
  return times;
}

// The sums of `times` elements next to each other
NetworkValue added_up(NetworkValue g, std::size_t axis, std::int64_t times) {
  Extents64 shape = extents_of(g), apart = shape;
  apart[axis] = shape[axis] /= times;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, times);
  return shaped(reduced(ReduceOp::sum, shaped(g, apart), {static_cast<int>(axis) + 1}), shape);
}

}  // namespace

InputGradients derivative_of(const operators::Resize& r, const Use& use) {
  const Extents64 x = extents_of(use.in[0]), y = extents_of(use.out);
  InputGradients result(use.in.size());  // of what only gives the size, none
  const auto rows = network::axis_table(r, x[2], y[2], r.height != 0 ? 0 : r.scale_h);
  const auto columns = network::axis_table(r, x[3], y[3], r.width != 0 ? 0 : r.scale_w);
  const std::int64_t down = repeats_of(rows, x[2]), across = repeats_of(columns, x[3]);
  if (down > 0 && across > 0) {  // each pixel's sum
    const Pair window{down, across};
    const auto factor = static_cast<double>(down * across);
    result[0] = average_pool(use.gradient, {.kernel = window, .stride = window}) * factor;
    return result;
  }
  const NetworkValue g = multiplied_along(use.gradient, 3, weights_of(columns, x[3]), x[3]);
  result[0] = multiplied_along(g, 2, weights_of(rows, x[2]), x[2]);
  return result;
}

InputGradients derivative_of(const operators::Resample& r, const Use& use) {
  const Extents64 x = extents_of(use.in[0]), y = extents_of(use.out);
  const auto outside = network::outside_positions(r, x, y);
  NetworkValue g = use.gradient;
  for (std::size_t axis = x.size(); axis-- > 0;) {
    if (network::leaves_axis(r, axis, x[axis], y[axis])) continue;
    const cpu::AxisTaps taps = network::axis_taps(r, axis, x[axis], y[axis]);
    const std::int64_t times = outside[axis].empty() ? repeats_of(taps, x[axis]) : 0;
    g = times > 0 ? added_up(g, axis, times)
                  : multiplied_along(g, axis, weights_of(taps, outside[axis], x[axis]), x[axis]);
  }
  InputGradients result(use.in.size());  // of what only gives the size, none
  result[0] = g;
  return result;
}

}  // namespace unisono::autodiff
