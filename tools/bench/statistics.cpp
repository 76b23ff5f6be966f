#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "unisono/error.hpp"

namespace unisono::bench {

double median(std::vector<double> values) {
  if (values.empty()) throw InternalError("the median of no values");
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Timing summary(std::span<const std::vector<double>> rounds) {
  std::vector<double> all, medians;
  for (const std::vector<double>& round : rounds) {
    all.insert(all.end(), round.begin(), round.end());
    medians.push_back(median(round));
  }
  const double middle = median(all);
  const auto [low, high] = std::minmax_element(medians.begin(), medians.end());
  return {middle, (*high - *low) / middle, *std::min_element(all.begin(), all.end()), static_cast<int>(all.size()), 0};
}

double geomean(std::span<const double> values) {
  if (values.empty()) throw InternalError("the geometric mean of no values");
  double sum = 0;
  for (const double v : values) {
    if (!(v > 0)) throw InternalError("the geometric mean of a value that is not positive");
    sum += std::log(v);
  }
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace unisono::bench
