// Dual products against loops written out.

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "reference/reference.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::reference::test {
namespace {

std::vector<float> random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = distribution(random);
  return numbers;
}

// gate and up as gpt-oss has them
double clamped(double gate, double up) {
  gate = std::min(gate, 0.75), up = std::clamp(up, -0.75, 0.75);
  return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
}

TEST(DualProduct, IsTwoProductsOfOneA) {
  const Gemm product{.batch = 2, .m = 5, .n = 7, .k = 9, .products = 2};
  const auto a = random_numbers(2 * 5 * 9, 1), gate = random_numbers(2 * 9 * 7, 2), up = random_numbers(2 * 9 * 7, 3),
             bias = random_numbers(7, 4);
  const Graph graph = parse(
      "g = clamp(acc0 + bias[n], upper=0.75)\nu = clamp(acc1, lower=-0.75, upper=0.75)\n"
      "store g * sigmoid(1.702 * g) * (u + 1) as y : f32\nstore acc1 as up : f32");
  Arguments arguments{.left = {a.data(), DType::f32, {2, 5, 9}, {}},
                      .right = {gate.data(), DType::f32, {2, 9, 7}, {}},
                      .right1 = {up.data(), DType::f32, {2, 9, 7}, {}}};
  arguments.operands["bias"] = {bias.data(), DType::f32, {7}, {}};
  const auto all = run(product, graph, arguments);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 7; ++j) {
        double acc0 = 0, acc1 = 0;
        for (std::size_t k = 0; k < 9; ++k) {
          const double x = a[(b * 5 + i) * 9 + k];
          acc0 += x * gate[(b * 9 + k) * 7 + j], acc1 += x * up[(b * 9 + k) * 7 + j];
        }
        const std::size_t at = (b * 5 + i) * 7 + j;
        EXPECT_NEAR(all.at("up").value[at], acc1, 1e-12) << at;
        EXPECT_NEAR(all.at("y").value[at], clamped(acc0 + bias[j], acc1), 1e-12) << at;
        EXPECT_GT(all.at("y").bound[at], 0) << at;
      }
}

TEST(DualProduct, OfConvolutionsIsTwoConvolutionsOfOneImage) {
  Conv2d one{.n = 2, .h = 6, .w = 7, .c = 4, .k = 6, .r = 3, .s = 2, .stride = {2, 1}, .pad = {1, 0, 2, 1}};
  for (const std::int64_t groups : {1, 2})
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
      one.groups = groups, one.layout = layout;
      Conv2d dual = one;
      dual.products = 2;
      const auto x = random_numbers(2 * 6 * 7 * 4, 5);
      const auto gate = random_numbers(static_cast<std::size_t>(6 * 3 * 2 * 4 / groups), 6),
                 up = random_numbers(gate.size(), 7);
      const ConstTensorView image{x.data(), DType::f32, shape_a(one), {}},
          first{gate.data(), DType::f32, shape_b(one), {}}, second{up.data(), DType::f32, shape_b(one), {}};
      const auto both = run(dual, parse("store silu(acc0) * acc1 as y : f32\nstore acc1 as up : f32"),
                            {.image = image, .filter = first, .right1 = second});
      const Graph bare = parse("store acc as y : f32");
      const Values acc0 = run(one, bare, {.image = image, .filter = first}).at("y"),
                   acc1 = run(one, bare, {.image = image, .filter = second}).at("y");
      ASSERT_EQ(both.at("y").value.size(), acc0.value.size());
      for (std::size_t i = 0; i < acc0.value.size(); ++i) {
        EXPECT_NEAR(both.at("up").value[i], acc1.value[i], 1e-12) << i;
        EXPECT_NEAR(both.at("y").value[i], acc0.value[i] / (1 + std::exp(-acc0.value[i])) * acc1.value[i], 1e-12) << i;
      }
    }
}

TEST(DualProduct, NeedsItsSecondRightOperand) {
  const auto numbers = random_numbers(4, 1);
  const Arguments arguments{.left = {numbers.data(), DType::f32, {1, 2, 2}, {}},
                            .right = {numbers.data(), DType::f32, {1, 2, 2}, {}}};
  EXPECT_THROW(run(Gemm{.m = 2, .n = 2, .k = 2, .products = 2}, parse("store acc0 * acc1"), arguments), UserError);
}

}  // namespace
}  // namespace unisono::reference::test
