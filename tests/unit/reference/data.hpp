#pragma once
/// Data and views for the tests of the reference.

#include <cstdint>
#include <random>
#include <vector>

#include "reference/reference.hpp"
#include "unisono/builder.hpp"

namespace unisono::reference::test {

inline std::vector<float> random_floats(std::size_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::vector<float> x(count);
  // the bits of the generator itself: distributions differ between standard libraries
  for (float& v : x) v = low + (high - low) * static_cast<float>(generator() >> 8) * 0x1p-24f;
  return x;
}

inline std::vector<float> random_integers(std::size_t count, unsigned seed, int reach = 4) {
  std::mt19937 generator(seed);
  std::vector<float> x(count);
  for (float& v : x) v = static_cast<float>(static_cast<int>(generator() % (2u * reach + 1)) - reach);
  return x;
}

inline ConstTensorView view(const std::vector<float>& x, std::vector<std::int64_t> shape) {
  return {x.data(), DType::f32, std::move(shape), {}};
}
inline ConstTensorView view(const std::vector<double>& x, std::vector<std::int64_t> shape) {
  return {x.data(), DType::f64, std::move(shape), {}};
}
inline ConstTensorView view(const std::vector<std::int32_t>& x, std::vector<std::int64_t> shape) {
  return {x.data(), DType::i32, std::move(shape), {}};
}

/// An accumulator whose elements are exact.
inline Values exact(const std::vector<float>& x) {
  Values v{axes::mn, {x.begin(), x.end()}, {}};
  v.bound.assign(x.size(), 0);
  return v;
}

}  // namespace unisono::reference::test
