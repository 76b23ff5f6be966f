// Heads on the CPU, against the float64 reference and against the contraction that they are.

#include <gmock/gmock.h>

#include <algorithm>

#include "ir/store_forms.hpp"
#include "unisono/error.hpp"
#include "unit/cpu/refused_arguments.hpp"

namespace unisono::test {
namespace {

using ::testing::HasSubstr;

const std::string texts[] = {
    "y = relu(acc + bias[n])\nstore y : {}\nstore head(y, hw, channels=3) as h : {}\n",
    "y = group_norm(acc, groups=2)\nstore scratch(y) as y : {}\n"
    "store head(y, hw, channels=17) {\n  t = acc + hb[n] + ht[b,n]\n  store t * sigmoid(t) as h : f32\n}\n",
    "v = acc * 2 + r[m,n]\nstore acc as x : f32\nstore v as y : {}\nstore head(v, hw, channels=1) {\n"
    "  operand gain = 2\n  store acc * gain as h : {}\n}\n"};

TEST(CpuHeadStore, AgreesWithTheReference) {
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

TEST(CpuHeadStore, OfAProductAgreesToo) {
  std::uint64_t seed = 50;
  for (const std::string& text : {texts[0], texts[2]})
    for (const char* type : {"f32", "bf16"}) {
      RandomCase c = problem(Gemm{.m = 37, .n = 24, .k = 11}, of_dtype(text, type), ++seed);
      expect_agreement(c, 2);
    }
}

TEST(CpuHeadStore, BesidePooledAndUpsampledStores) {
  RandomCase c = problem(Conv2d{.n = 2, .h = 6, .w = 7, .c = 3, .k = 8},
                         "y = tanh(acc)\nstore y : bf16\nstore max_pool_2x2(y) as p : bf16\n"
                         "store upsample_2x2(y) as e : bf16\nstore head(y, hw, channels=5) as h : bf16\n");
  expect_agreement(c, 2);
  RandomCase alone = problem(Conv2d{.n = 2, .h = 6, .w = 7, .c = 3, .k = 8},
                             "y = tanh(acc)\nstore scratch(y) as y : f32\nstore upsample_2x2(y) as e : f32\n"
                             "store head(y, hw, channels=5) as h : bf16\n");
  expect_agreement(alone, 1);
}

// The same bits as the head by itself, of what was stored, by any number of threads
TEST(CpuHeadStore, IsTheContractionOfTheStore) {
  RandomCase c = problem(Conv2d{.n = 3, .h = 14, .w = 15, .c = 5, .k = 16, .r = 3, .s = 3, .pad = 1},
                         "y = silu(acc)\nstore y : bf16\nstore head(y, hw, channels=4) {\n"
                         "  store relu(acc + hb[n]) as h : f32\n}\n");
  compile(c.contraction, c.graph, options_of(c, 1)).run(c.arguments);
  const std::string once = output_bytes(c);
  poison_outputs(c);
  compile(c.contraction, c.graph, options_of(c, 3)).run(c.arguments);
  EXPECT_EQ(output_bytes(c), once);

  const Head& head = *c.graph.stores[1].head;
  const TensorView& y = c.arguments.outputs.at("y");
  const TensorView& h = c.arguments.outputs.at("h");
  std::vector<std::byte> memory(static_cast<std::size_t>(element_count(h.shape)) * sizeof(float));
  Arguments own;
  own.image = y, own.filter = c.arguments.operands.at("hw");
  own.operands["hb"] = c.arguments.operands.at("hb");
  own.outputs["h"] = {memory.data(), DType::f32, h.shape, {}};
  CompileOptions options;
  options.storage["hb"] = own.operands["hb"].dtype;
  compile(ir::head_contraction(c.contraction, 4, DType::bf16), head.graph, options).run(own);
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), static_cast<const std::byte*>(h.data)));
}

class CpuHeadRefusals : public RefusedArguments {
 protected:
  CpuHeadRefusals()
      : RefusedArguments(Conv2d{.n = 1, .h = 6, .w = 4, .c = 3, .k = 2},
                         "store acc as y\nstore head(acc, hw, channels=3) {\n  store acc + hb[n] as h\n}\n") {}
};

TEST_F(CpuHeadRefusals, SayWhatIsExpected) {
  EXPECT_EQ(refusal([](Arguments&) {}), "accepted");
  EXPECT_THAT(refusal([](Arguments& a) { a.outputs.erase("h"); }),
              HasSubstr("output h (head) is not bound; give a tensor of shape (1,6,4,3) and dtype f32"));
  EXPECT_THAT(refusal([](Arguments& a) { a.outputs.erase("y"); }), HasSubstr("output y[m,n] is not bound"));
  EXPECT_THAT(refusal([](Arguments& a) { a.operands.erase("hw"); }),
              HasSubstr("filter hw (of the head h) is not bound; give a tensor of shape (3,1,1,2) and dtype f32"));
  EXPECT_THAT(refusal([](Arguments& a) { a.operands.erase("hb"); }), HasSubstr("operand hb[n] is not bound"));
  EXPECT_THAT(refusal([](Arguments& a) { a.operands["hw"].dtype = DType::bf16; }), HasSubstr("filter hw"));
  EXPECT_THAT(refusal([](Arguments& a) { a.outputs["h"].data = a.outputs["y"].data; }),
              HasSubstr("output h (head) shares memory with output y"));
  EXPECT_THAT(refusal([](Arguments& a) { a.operands["hc"] = a.operands["hb"]; }),
              HasSubstr("Arguments::operands has hc"));
  EXPECT_THAT(kernel.describe(), HasSubstr("store h: head of y, conv2d 1x6x4x2 -> 3"));
}

TEST_F(CpuHeadRefusals, OfSeveralProducts) {
  EXPECT_THROW(compile(Gemm{.batch = 2, .m = 4, .n = 4, .k = 4}, c.graph), Unsupported);
}

TEST_F(CpuHeadRefusals, StorageOfOperandsThatAreNone) {
  CompileOptions options;
  options.storage["hw2"] = DType::bf16;
  EXPECT_THROW(compile(c.contraction, c.graph, options), UserError);
}

}  // namespace
}  // namespace unisono::test
