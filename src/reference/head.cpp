#include "reference/head.hpp"

#include <cmath>

#include "support/float_convert.hpp"

namespace unisono::reference {

Values exact(const ConstTensorView& tensor) {
  const auto count = static_cast<std::size_t>(element_count(tensor.shape));
  Values values{.axes = axes::mn, .value = std::vector<double>(count), .bound = std::vector<double>(count, 0.0)};
  const auto strides = tensor.strides.empty() ? row_major_strides(tensor.shape) : tensor.strides;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t at = 0, left = static_cast<std::int64_t>(i);
    for (std::size_t axis = tensor.shape.size(); axis-- > 0; left /= tensor.shape[axis])
      at += left % tensor.shape[axis] * strides[axis];
    values.value[i] = support::load(tensor.data, at, tensor.dtype);
  }
  return values;
}

Values head_sums(const Values& store, const ConstTensorView& filter, std::int64_t count, double accumulate) {
  const Values w = exact({filter.data, filter.dtype, filter.shape, {}});
  const auto channels = static_cast<std::size_t>(count), n = w.value.size() / channels;
  const std::size_t rows = store.value.size() / n;
  Values sums{.axes = axes::mn, .value = std::vector<double>(rows * channels), .bound = {}};
  sums.bound.resize(sums.value.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t channel = 0; channel < channels; ++channel) {
      double sum = 0, absolute = 0, inherited = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double x = store.value[row * n + i], f = w.value[channel * n + i], off = store.bound[row * n + i];
        sum += x * f;
        absolute += (std::abs(x) + off) * std::abs(f);
        if (f != 0) inherited += off * std::abs(f);
      }
      sums.value[row * channels + channel] = sum;
      sums.bound[row * channels + channel] = inherited + accumulate * absolute;
    }
  return sums;
}

}  // namespace unisono::reference
