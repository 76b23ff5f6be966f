// Stores that are pooled or upsampled, against the float64 reference and against the store of which they are made.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

#include "reference/resampled.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/cpu/refused_arguments.hpp"

namespace unisono::test {
namespace {

using ::testing::HasSubstr;

const std::string both =
    "y = relu(acc + bias[n])\nstore y : {}\nstore max_pool_2x2(y) as p : {}\nstore upsample_2x2(y) as e : {}\n";

TEST(CpuResampledStores, AgreeWithTheReference) {
  const std::string texts[] = {
      both, "store upsample_2x2(acc * 2 + r[m,n]) as e : {}\n",
      "y = group_norm(acc, groups=2)\nstore acc as h : f32\nstore y : {}\nstore max_pool_2x2(y) as p : {}\n"};
  std::uint64_t seed = 0;
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const std::string& text : texts)
      for (const char* type : {"f32", "bf16", "f16"}) {
        RandomCase conv =
            problem(Conv2d{.n = 2, .h = 9, .w = 7, .c = 3, .k = 6, .r = 3, .s = 3, .pad = 1, .layout = layout},
                    of_dtype(text, type), ++seed);
        expect_agreement(conv, 2);
        RandomCase transposed = problem(
            ConvTranspose2d{.n = 1, .h = 3, .w = 4, .c = 3, .k = 4, .r = 2, .s = 2, .stride = 2, .layout = layout},
            of_dtype(text, type), ++seed);
        expect_agreement(transposed, 1);
      }
}

// Exactly the store's elements, as they are rounded
TEST(CpuResampledStores, AreElementsOfTheStore) {
  RandomCase c = problem(Conv2d{.n = 2, .h = 5, .w = 8, .c = 3, .k = 4}, of_dtype(both, "bf16"));
  std::map<std::string, std::vector<std::byte>> memory;
  for (auto& [name, view] : c.arguments.outputs) {
    memory[name].resize(static_cast<std::size_t>(element_count(view.shape)) * 2);
    view.data = memory[name].data(), view.strides.clear();
  }
  compile(c.contraction, c.graph, options_of(c, 1)).run(c.arguments);
  const auto& outputs = c.arguments.outputs;
  EXPECT_EQ(reference::first_other(outputs.at("y"), outputs.at("p")), std::nullopt);
  EXPECT_EQ(reference::first_other(outputs.at("y"), outputs.at("e")), std::nullopt);
}

TEST(CpuResampledStores, HaveTheSameBitsByAnyNumberOfThreads) {
  RandomCase c = problem(Conv2d{.n = 3, .h = 21, .w = 18, .c = 3, .k = 8}, of_dtype(both, "bf16"));
  std::set<std::string> bits;
  for (const int threads : {1, 2, 7}) {
    poison_outputs(c);
    compile(c.contraction, c.graph, options_of(c, threads)).run(c.arguments);
    bits.insert(output_bytes(c));
  }
  EXPECT_EQ(bits.size(), 1u);
}

TEST(CpuResampledStores, NanIsTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float image[] = {1, nan, 3, 2, 5, 0, -1, -2}, filter[] = {1}, y[8], p[2];
  const Conv2d conv{.h = 2, .w = 4, .c = 1, .k = 1};
  Arguments a;
  a.image = {image, DType::f32, {1, 2, 4, 1}, {}}, a.filter = {filter, DType::f32, {1, 1, 1, 1}, {}};
  a.outputs["y"] = {y, DType::f32, {1, 2, 4, 1}, {}}, a.outputs["p"] = {p, DType::f32, {1, 1, 2, 1}, {}};
  const Graph g = parse("store acc as y\nstore max_pool_2x2(acc) as p");
  compile(conv, g).run(a);
  EXPECT_TRUE(std::isnan(p[0]));
  EXPECT_EQ(p[1], 3);
}

class CpuResampledRefusals : public RefusedArguments {
 protected:
  CpuResampledRefusals() : RefusedArguments(Conv2d{.n = 1, .h = 6, .w = 4, .c = 3, .k = 2}, of_dtype(both, "f32")) {}
};

TEST_F(CpuResampledRefusals, SayWhatIsExpected) {
  EXPECT_EQ(refusal([](Arguments&) {}), "accepted");
  EXPECT_THAT(refusal([](Arguments& a) { a.outputs.erase("p"); }),
              Says("output p (max_pool_2x2) is not bound; give … shape (1,3,2,2) and dtype f32"));
  EXPECT_THAT(refusal([](Arguments& a) {
                a.outputs["e"].shape = {1, 6, 4, 2}, a.outputs["e"].strides.clear();
              }),
              HasSubstr("(1,12,8,2)"));
  EXPECT_THAT(refusal([](Arguments& a) { a.outputs["p"].dtype = DType::f16; }), HasSubstr("output p (max_pool_2x2)"));
  EXPECT_THAT(refusal([](Arguments& a) { a.outputs["p"].data = a.outputs["e"].data; }),
              HasSubstr("output p (max_pool_2x2) shares memory with output e"));
  EXPECT_THAT(refusal([](Arguments& a) { a.outputs["z"] = a.outputs["p"]; }),
              Says("Arguments::outputs has z, but … name; its stores are y, p, e"));
  EXPECT_THAT(kernel.describe(), HasSubstr("store p: max_pool_2x2 of y, after the last tile"));
}

TEST_F(CpuResampledRefusals, AProductHasNoImage) {
  EXPECT_THROW(compile(Gemm{.m = 4, .n = 4, .k = 4}, c.graph), UserError);
}

}  // namespace
}  // namespace unisono::test
