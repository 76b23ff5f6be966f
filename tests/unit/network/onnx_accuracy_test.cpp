/// Operators that the importer writes as several others, against what ONNX defines, in float64: they must not lose
/// digits by how they are written.

#include <algorithm>
#include <cmath>

#include "onnx_model.hpp"

namespace unisono {
namespace {

using Model = test::OnnxModel;

test::HostTensor with_offset(std::vector<std::int64_t> shape, double offset) {
  test::Random random(7);
  return test::random_tensor(random, std::move(shape), offset - 4, offset + 4);
}

/// y by groups of `count` elements that stand `step` apart.
std::vector<double> log_softmax(const test::HostTensor& x, std::size_t count, std::size_t step) {
  std::vector<double> y(x.data.size());
  for (std::size_t first = 0; first < y.size(); ++first) {
    if (first / step % count != 0) continue;
    double top = x.data[first], sum = 0;
    for (std::size_t i = 0; i < count; ++i) top = std::max<double>(top, x.data[first + i * step]);
    for (std::size_t i = 0; i < count; ++i) sum += std::exp(x.data[first + i * step] - top);
    for (std::size_t i = 0; i < count; ++i) y[first + i * step] = (x.data[first + i * step] - top) - std::log(sum);
  }
  return y;
}

TEST(OnnxLogSoftmax, KeepsItsDigitsAtAnyOffset) {
  const std::vector<std::int64_t> shape{2, 3, 4, 5};
  for (const double offset : {0.0, 1e3, -1e5, 1e5}) {
    for (const auto& [opset, axis, count, step] :
         std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t, std::size_t>>{
             {13, 1, 3, 20}, {13, -1, 5, 1}, {13, 2, 4, 5}, {13, 0, 2, 60}, {11, 2, 20, 1}}) {
      Model m("LogSoftmax", opset, {"image"});
      m.proto.mutable_graph()->clear_input();
      m.add_input("image", shape);
      m.set("axis", axis);
      const test::HostTensor x = with_offset(shape, offset);
      const auto y = test::run(compile(test::parse(m.bytes())), {{"image", x}}).at("y").data;
      const std::vector<double> expected = log_softmax(x, count, step);
      for (std::size_t i = 0; i < y.size(); ++i)
        ASSERT_NEAR(y[i], expected[i], 0x1p-22 * (1 + std::abs(expected[i])))
            << "offset " << offset << ", axis " << axis << ", opset " << opset << ", element " << i;
    }
  }
}

TEST(OnnxCelu, IsItsFormulaForEitherSignOfAlpha) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> points{-infinity, -20, -5, -1, -0.25f, -1e-6f, -0.f, 0, 1e-6f, 0.5f, 5, infinity};
  for (const float alpha : {-1.F, -0.5F, -3.F, 0.5F, 1.F, 2.F}) {
    Model m("Celu", 12, {"points"});
    m.proto.mutable_graph()->clear_input();
    m.add_input("points", {std::ssize(points)});
    m.set("alpha", alpha);
    const test::HostTensors x{{"points", {{std::ssize(points)}, points}}};
    const auto y = test::run(compile(test::parse(m.bytes())), x).at("y").data;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double z = points[i] / static_cast<double>(alpha);
      const double expected = std::max(0.0, static_cast<double>(points[i])) + std::min(0.0, alpha * std::expm1(z));
      if (std::isinf(expected)) {
        EXPECT_EQ(y[i], expected) << "alpha " << alpha << ", x " << points[i];
      } else {
        EXPECT_NEAR(y[i], expected, 0x1p-21 * (1 + std::abs(z)) * std::abs(expected))
            << "alpha " << alpha << ", x " << points[i];
      }
    }
  }
}

}  // namespace
}  // namespace unisono
