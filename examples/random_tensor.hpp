#pragma once
// What the examples share: random tensors, and the largest difference between a result and a plain loop.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include <unisono/unisono.hpp>

namespace example {

/// A dense row-major tensor of f32 that owns its memory.
struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;

  explicit Tensor(std::vector<std::int64_t> extents)
      : shape(std::move(extents)), values(static_cast<std::size_t>(unisono::element_count(shape)), NAN) {}

  unisono::TensorView view() { return {values.data(), unisono::DType::f32, shape, {}}; }
  unisono::ConstTensorView view() const { return {values.data(), unisono::DType::f32, shape, {}}; }
  double operator[](std::int64_t i) const { return static_cast<double>(values[static_cast<std::size_t>(i)]); }
};

/// Independent samples of the standard normal distribution.
inline Tensor normal(std::vector<std::int64_t> shape, unsigned seed) {
  Tensor tensor(std::move(shape));
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  for (float& v : tensor.values) v = distribution(random);
  return tensor;
}

/// The larger of two differences; a NaN, which an element that nobody wrote still is, counts as infinite.
inline double worse(double worst, double result, double expected) {
  const double error = std::abs(result - expected);
  return std::isnan(error) ? INFINITY : std::max(worst, error);
}

/// Prints the largest difference and returns the program's exit status.
inline int verdict(const char* what, double worst, double tolerance) {
  std::printf("%s: largest difference from a plain loop %.1e (allowed %.0e)\n", what, worst, tolerance);
  return worst <= tolerance ? 0 : 1;
}

}  // namespace example
