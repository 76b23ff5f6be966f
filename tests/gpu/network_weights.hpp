#pragma once
/// Random weights of the tests' networks.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "unisono/network.hpp"

namespace unisono::gpu {

class Weights {
 public:
  explicit Weights(NetworkBuilder& net) : net_(net) {}
  NetworkValue operator()(std::vector<std::int64_t> shape, double scale = 1, double offset = 0) {
    std::vector<float> x(static_cast<std::size_t>(element_count(shape)));
    for (float& v : x) v = static_cast<float>(offset + random_.uniform(-scale, scale));
    return net_.constant("w" + std::to_string(++count_), Shape(shape.begin(), shape.end()), std::move(x));
  }
  /// A filter that keeps the size of what it is applied to.
  NetworkValue filter(std::int64_t to, std::int64_t from, std::int64_t size) {
    return (*this)({to, from, size, size}, std::sqrt(3.0 / static_cast<double>(from * size * size)));
  }

 private:
  NetworkBuilder& net_;
  test::Random random_{20261};
  int count_ = 0;
};

inline std::int64_t channels_of(NetworkValue x) { return x.shape()[1].value(); }

}  // namespace unisono::gpu
