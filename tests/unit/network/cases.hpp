#pragma once
/// What the tests of networks share: tensors, runs, and the comparison with the float64 reference.

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "reference/network/answer.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono::test {

struct HostTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
};
using HostTensors = std::map<std::string, HostTensor>;

inline HostTensor random_tensor(Random& r, std::vector<std::int64_t> shape, double low = -2, double high = 2) {
  HostTensor t{std::move(shape), {}};
  t.data.resize(static_cast<std::size_t>(element_count(t.shape)));
  for (float& x : t.data) x = static_cast<float>(r.uniform(low, high));
  return t;
}

inline std::vector<float> random_elements(Random& r, std::int64_t count, double scale = 1) {
  return random_tensor(r, {count}, -scale, scale).data;
}

/// Runs into buffers that were filled with NaN.
inline HostTensors run(const NetworkExecutable& network, const HostTensors& inputs) {
  std::map<std::string, ConstTensorView> in;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, t] : inputs) {
    in[name] = {t.data.data(), DType::f32, t.shape, {}};
    shapes[name] = t.shape;
  }
  HostTensors outputs;
  std::map<std::string, TensorView> out;
  for (const auto& [name, shape] : network.output_shapes(shapes)) {
    HostTensor& t = outputs[name];
    t.shape = shape;
    t.data.assign(static_cast<std::size_t>(element_count(shape)), std::numeric_limits<float>::quiet_NaN());
    out[name] = {t.data.data(), DType::f32, shape, {}};
  }
  network.run(in, out);
  return outputs;
}

/// Every element of every output against the float64 reference of the network as it was given, before any fusing.
inline void expect_agreement(const Network& network, const HostTensors& inputs, const HostTensors& outputs) {
  float64::Tensors64 in;
  for (const auto& [name, t] : inputs)
    in[name] = {t.shape, {t.data.begin(), t.data.end()}, std::vector<double>(t.data.size(), 0.0)};
  float64::Tensors64 out;
  for (const auto& [name, t] : outputs) out[name] = {t.shape, {t.data.begin(), t.data.end()}, {}};
  const auto agreements = float64::check_network(network, in, out);
  EXPECT_EQ(agreements.size(), network.outputs.size());
  for (const auto& a : agreements) {
    EXPECT_TRUE(a.ok()) << a.output << ": " << a.outside << " of " << a.elements << " elements are off, by up to "
                        << a.largest_error << "; tolerance " << a.tolerance;
    EXPECT_GT(a.elements, 0);
  }
}

template <class F>
std::string user_error(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "(no UserError)";
}

}  // namespace unisono::test
