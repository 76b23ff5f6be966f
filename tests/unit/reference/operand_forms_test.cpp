// Operands that lack coordinates of rows, defaults of vectors and integers of user functions, against loops written
// out.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/reference.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::reference::test {
namespace {

TEST(OperandForms, AreRepeatedAlongWhatTheyLack) {
  const Conv2d conv{.n = 2, .h = 3, .w = 4, .c = 1, .k = 2, .r = 1, .s = 1};
  const std::vector<float> x(2 * 3 * 4, 0), filter(2, 0);
  std::vector<float> plane(12), line(3), all(24);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i) / 64;
  for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = static_cast<float>(i + 1);
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = static_cast<float>(100 * (i + 1));
  const Graph graph = parse("operand gain[b] = 2\nstore acc + plane[h,w] * gain + line[h] + whole[h,w,n] as y");
  Arguments arguments{.image = {x.data(), DType::f32, {2, 3, 4, 1}, {}},
                      .filter = {filter.data(), DType::f32, {2, 1, 1, 1}, {}}};
  arguments.operands["plane"] = {plane.data(), DType::f32, {3, 4}, {}};
  arguments.operands["line"] = {line.data(), DType::f32, {3}, {}};
  arguments.operands["whole"] = {all.data(), DType::f32, {3, 4, 2}, {}};
  const auto y = run(conv, graph, arguments).at("y").value;
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t h = 0; h < 3; ++h)
      for (std::size_t w = 0; w < 4; ++w)
        for (std::size_t n = 0; n < 2; ++n)
          EXPECT_EQ(y[((b * 3 + h) * 4 + w) * 2 + n], 2 * plane[h * 4 + w] + line[h] + all[(h * 4 + w) * 2 + n]);
  arguments.operands["plane"] = {plane.data(), DType::f32, {12}, {}};
  EXPECT_THROW(run(conv, graph, arguments), UserError);
}

// Above 2^24 a float does not tell neighbours apart
TEST(OperandForms, IntegersReachUserFunctionsExactly) {
  UserFunction f{.name = "parity",
                 .arity = 1,
                 .cuda_source = "__device__ float parity(long long m) { return float(m & 1); }",
                 .cpu = [](std::span<const double> x) { return x[0] - 2 * std::floor(x[0] / 2); },
                 .parameters = {ParameterType::int64}};
  const Gemm product{.m = 4, .n = 1, .k = 1};
  const float a[] = {1, 1, 1, 1}, b[] = {1};
  const Arguments arguments{.left = {a, DType::f32, {1, 4, 1}, {}}, .right = {b, DType::f32, {1, 1, 1}, {}}};
  const auto y = run(product, parse("store parity(index(m) + 16777216) as y", {f}), arguments).at("y").value;
  EXPECT_EQ(y, (std::vector<double>{0, 1, 0, 1}));
}

}  // namespace
}  // namespace unisono::reference::test
