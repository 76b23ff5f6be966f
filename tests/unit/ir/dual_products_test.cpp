// Graphs of two accumulators: in the text form, by the builder, printed, and beside the contractions they may follow.

#include <gmock/gmock.h>

#include "ir/check_graph.hpp"
#include "refusal.hpp"
#include "support/says.hpp"
#include "unisono/builder.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using test::refusal;
using ::testing::HasSubstr;

constexpr const char* swiglu = "store silu(acc0) * acc1 as y : bf16\n";

TEST(DualProducts, BuilderAndTextAgree) {
  GraphBuilder g;
  const Value gate = g.acc(0), up = g.acc(1);
  g.store(silu(gate) * up, DType::bf16, "y");
  const Graph graph = g.build();
  EXPECT_TRUE(structurally_equal(graph, parse(swiglu)));
  EXPECT_EQ(product_count(graph), 2);
  EXPECT_EQ(g.acc(1).id(), up.id()) << "a leaf stands once";
  EXPECT_EQ(up.axes(), axes::mn);
  EXPECT_EQ(up.dtype(), DType::f32);
}

TEST(DualProducts, ArePrintedByTheirNames) {
  EXPECT_EQ(print(parse(swiglu)), "y = silu(acc0) * acc1\nstore y : bf16\n");
  EXPECT_EQ(print(parse("store acc1 as y : f32")), "store acc1 as y : f32\n");
  EXPECT_EQ(print(parse("store acc * 2 as y : f32")), "y = acc * 2\nstore y : f32\n");
  EXPECT_EQ(product_count(parse("store acc")), 1);
}

TEST(DualProducts, TwoAccumulatorsAreNotOne) {
  EXPECT_FALSE(structurally_equal(parse("store acc0 - acc1"), parse("store acc1 - acc0")));
  EXPECT_FALSE(structurally_equal(parse("store acc1"), parse("store acc")));
}

TEST(DualProducts, AGraphReadsEitherOneOrBoth) {
  EXPECT_THAT(refusal("store acc + acc1"), HasSubstr("line 1, column 13: the graph reads acc, and acc1 too"));
  EXPECT_THAT(refusal("store acc0 * acc1 + acc"), HasSubstr("the graph reads acc0 or acc1, and acc too"));
  EXPECT_THAT(refusal("store acc0"), HasSubstr("the graph reads acc0 and not acc1"));
  EXPECT_THAT(refusal("store acc1[m,n]"), HasSubstr("acc1 takes no axes: it is always [m,n]"));
  EXPECT_THAT(refusal("store acc2"), HasSubstr("'acc2' is not defined; did you mean"));
  EXPECT_THAT(refusal("acc1 = acc"), HasSubstr("acc1"));
  EXPECT_THAT(refusal([] { GraphBuilder().acc(2); }), Says("acc(2): … accumulators 0 and 1"));
}

TEST(DualProducts, TheContractionHasAsManyAsTheGraphReads) {
  const Gemm one{.m = 3, .n = 4, .k = 5}, two{.m = 3, .n = 4, .k = 5, .products = 2};
  EXPECT_NO_THROW(ir::check_graph(parse(swiglu), two));
  EXPECT_THAT(refusal([&] { ir::check_graph(parse(swiglu), one); }),
              Says("the graph reads acc1, … gemm 3x4x5, f32 is one"));
  EXPECT_THAT(refusal([&] { ir::check_graph(parse("store acc"), two); }),
              Says("dual gemm 3x4x5, f32 has two products, … first alone"));
  EXPECT_THAT(refusal([&] { ir::check_graph(parse(swiglu), Conv2d{.h = 1, .w = 1, .c = 1, .k = 1}); }),
              HasSubstr("the graph reads acc1"));
  EXPECT_THAT(refusal([] { extents(Gemm{.m = 3, .n = 4, .k = 5, .products = 3}); }),
              HasSubstr("gemm: products is 3; expected 1, or 2 for two right"));
}

TEST(DualProducts, AConvolutionHasAsManyFilters) {
  const Conv2d one{.n = 2, .h = 6, .w = 5, .c = 4, .k = 3, .r = 3, .s = 3, .pad = 1};
  Conv2d two = one, three = one;
  two.products = 2, three.products = 3;
  EXPECT_NO_THROW(ir::check_graph(parse(swiglu), two));
  EXPECT_THAT(refusal([&] { ir::check_graph(parse(swiglu), one); }),
              HasSubstr("conv2d 2x6x5x4 -> 3, 3x3, pad 1, f32 is one; describe a dual"));
  EXPECT_THAT(refusal([&] { ir::check_graph(parse("store acc"), two); }),
              HasSubstr("dual conv2d 2x6x5x4 -> 3, 3x3, pad 1, f32 has two products"));
  EXPECT_THAT(refusal([&] { extents(three); }), HasSubstr("conv2d: products is 3; expected 1, or 2 for two filters"));
  EXPECT_EQ(flop(two), 2 * flop(one));
  EXPECT_EQ(shape_b(two), shape_b(one));
  EXPECT_EQ(shape_mn(two), shape_mn(one));
}

TEST(DualProducts, CountTwiceTheOperations) {
  const Gemm one{.m = 3, .n = 4, .k = 5}, two{.m = 3, .n = 4, .k = 5, .products = 2};
  EXPECT_EQ(flop(two), 2 * flop(one));
  EXPECT_EQ(shape_b(two), shape_b(one));
  EXPECT_EQ(shape_mn(two), shape_mn(one));
}

}  // namespace
}  // namespace unisono
