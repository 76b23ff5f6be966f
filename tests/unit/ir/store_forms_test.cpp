// Stores that are pooled or upsampled: text, builder, rules, and what backends are given.

#include "ir/store_forms.hpp"

#include <gmock/gmock.h>

#include "support/says.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"
#include "unit/ir/refusal.hpp"

namespace unisono {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* all =
    "y = relu(acc + bias[n])\n"
    "store y : bf16\n"
    "store max_pool_2x2(y) as p : bf16\n"
    "store upsample_2x2(y) as e : bf16\n";

TEST(ResampledStores, TextAndBuilderSayTheSame) {
  GraphBuilder b;
  const Value y = relu(b.acc() + b.operand("bias", axes::n)).named("y");
  b.store(y, DType::bf16);
  b.store(max_pool_2x2(y), DType::bf16, "p");
  b.store(upsample_2x2(y), DType::bf16, "e");
  const Graph g = b.build();
  EXPECT_TRUE(structurally_equal(g, parse(all)));
  EXPECT_EQ(print(g), all);
  EXPECT_FALSE(structurally_equal(parse("store acc as y : f16\nstore upsample_2x2(acc) as e : f16"),
                                  parse("store acc as y : f16\nstore max_pool_2x2(acc) as e : f16")));
}

TEST(ResampledStores, TheFormerNameIsRead) {
  EXPECT_EQ(print(parse("store enlarge_2x2(acc) as e : f16")), "store upsample_2x2(acc) as e : f16\n");
  EXPECT_EQ(print(parse("enlarge_2x2 = relu(acc)\nstore enlarge_2x2 : f16")),
            print(parse("enlarge_2x2 = relu(acc)\nstore enlarge_2x2 as enlarge_2x2 : f16")));
}

TEST(ResampledStores, TextsRoundTrip) {
  for (const std::string text : {"store upsample_2x2(acc * 2) as e : f16\n", "store upsample_2x2(acc) : f32\n",
                                 "store acc : bf16\nstore max_pool_2x2(acc) : bf16\n", all}) {
    const Graph g = parse(text);
    EXPECT_TRUE(structurally_equal(g, parse(print(g)))) << text << print(g);
    EXPECT_EQ(print(parse(print(g))), print(g)) << text;
  }
  EXPECT_EQ(parse("store upsample_2x2(acc)").stores[0].name, "out0");
  EXPECT_EQ(parse("store upsample_2x2(cast(acc, bf16))").stores[0].dtype, DType::bf16);
}

TEST(ResampledStores, FormsStandAloneUnderAStore) {
  const std::string alone = "max_pool_2x2 … store, no operation: store max_pool_2x2(y) as p";
  EXPECT_THAT(refusal("y = max_pool_2x2(acc)\nstore y"), Says(alone));
  EXPECT_THAT(refusal("store acc as y\nstore max_pool_2x2(acc) + 1 as p"), Says(alone));
  EXPECT_THAT(refusal("store acc as y\nstore relu(max_pool_2x2(acc)) as p"), Says(alone));
  EXPECT_THAT(refusal("max_pool_2x2 = acc\nstore acc"), HasSubstr("is a reserved word"));
}

TEST(ResampledStores, Rules) {
  EXPECT_THAT(refusal("store mean(acc, over=m) as y\nstore upsample_2x2(mean(acc, over=m)) as e"),
              Says("store e (upsample_2x2) … axes [n]; expected [m,n]"));
  EXPECT_THAT(refusal("store upsample_2x2(acc < 1) as e"), HasSubstr("has dtype bool; expected a floating-point type"));
  EXPECT_THAT(refusal("store upsample_2x2(acc) as e\nstore upsample_2x2(acc) as f"),
              HasSubstr("store f (upsample_2x2) is the second upsample_2x2 (the first is e); a graph has one"));
  EXPECT_THAT(
      refusal("y = relu(acc)\nstore y\nstore acc as h\nstore upsample_2x2(acc) as e\nstore max_pool_2x2(y) as p"),
      HasSubstr("store p (max_pool_2x2) differs from e"));
  EXPECT_THAT(refusal("store max_pool_2x2(acc) as p : bf16"), Says("needs a store … as bf16"));
  EXPECT_THAT(refusal("store upsample_2x2(acc) as e : bf16\nstore max_pool_2x2(acc) as p : bf16"),
              Says("needs a store … as bf16"));
  EXPECT_THAT(refusal("store acc as y : f32\nstore upsample_2x2(acc) as e : bf16"), Says("needs a store … as bf16"));
  EXPECT_EQ(refusal(all), "none");
  EXPECT_THAT(refusal([] { ir::check_forms(parse(all), Gemm{.m = 4, .n = 4, .k = 4}); }),
              Says("store p (max_pool_2x2) … gemm 4x4x4, f32, which has no image; expected a convolution"));
}

TEST(ResampledStores, Shapes) {
  Conv2d c{.n = 2, .h = 9, .w = 7, .c = 3, .k = 5};
  EXPECT_THAT(ir::shape_of(StoreForm::max_pool_2x2, c), ElementsAre(2, 4, 3, 5));
  EXPECT_THAT(ir::shape_of(StoreForm::upsample_2x2, c), ElementsAre(2, 18, 14, 5));
  c.layout = Layout::nchw;
  EXPECT_THAT(ir::shape_of(StoreForm::max_pool_2x2, c), ElementsAre(2, 5, 4, 3));
  EXPECT_THAT(ir::shape_of(StoreForm::whole, Gemm{.m = 4, .n = 4, .k = 4}), ElementsAre(1, 4, 4));
}

}  // namespace
}  // namespace unisono
