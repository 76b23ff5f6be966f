// Heads as stores of the graph: text, builder, rules, and what backends are given.

#include <gmock/gmock.h>

#include "ir/store_forms.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"
#include "unit/ir/refusal.hpp"

namespace unisono {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* heatmaps =
    "y = relu(acc + bias[n])\n"
    "store y : bf16\n"
    "store head(y, to_heat, channels=17) {\n"
    "  t = acc + hbias[n]\n"
    "  heat = t * sigmoid(t)\n"
    "  store heat : f16\n"
    "}\n";

// A head of `y`, which is stored as bf16, with this text within the braces
std::string of_head(const std::string& within) {
  return refusal("y = acc + bias[n]\nstore y : bf16\nstore head(y, w, channels=8) {\n" + within + "\n}");
}

TEST(HeadStores, TextAndBuilderSayTheSame) {
  GraphBuilder b;
  const Value y = relu(b.acc() + b.operand("bias", axes::n)).named("y");
  b.store(y, DType::bf16);
  const auto epilogue = [](GraphBuilder& h) {
    const Value t = (h.acc() + h.operand("hbias", axes::n)).named("t");
    return t * sigmoid(t);
  };
  b.store(head(y, {.channels = 17, .filter = "to_heat", .epilogue = epilogue}), DType::f16, "heat");
  const Graph g = b.build();
  EXPECT_TRUE(structurally_equal(g, parse(heatmaps))) << print(g);
  EXPECT_EQ(print(g), heatmaps);
}

TEST(HeadStores, BareOnesNeedNoBraces) {
  const std::string text = "store scratch(acc) as y : f16\nstore head(acc, w, channels=3) as heat : f16\n";
  GraphBuilder b;
  b.store(scratch(b.acc()), DType::f16, "y");
  b.store(head(b.acc(), {.channels = 3, .filter = "w"}), DType::f16, "heat");
  EXPECT_EQ(print(b.build()), text);
  EXPECT_TRUE(structurally_equal(b.build(), parse(text)));
  EXPECT_EQ(parse("store acc : bf16\nstore head(acc, w, channels=3)").stores[1].name, "out1");
  EXPECT_EQ(parse("store acc : bf16\nstore head(acc, w, channels=3)").stores[1].dtype, DType::f32);
}

TEST(HeadStores, TextsRoundTrip) {
  for (const std::string text :
       {"store acc : bf16; store head(acc, w, channels=1)\n",
        "store acc : f32; store head(acc, w, channels=32) : f16\n",
        "store acc as y; store head(acc, w, channels=4) { store acc * s[] + a[b,n] as h } ; store 2*acc as z\n",
        "store acc as y\nstore head(acc, w, channels=4) {\n\n# the head's own\noperand s : f16 = 0.5; t = acc * s\n"
        "store select(t > 0, t, index(n)) as h : bf16\n\n}\n",
        heatmaps}) {
    const Graph g = parse(text);
    EXPECT_TRUE(structurally_equal(g, parse(print(g)))) << text << print(g);
    EXPECT_EQ(print(parse(print(g))), print(g)) << text;
  }
}

TEST(HeadStores, EveryPartCounts) {
  const Graph g = parse(heatmaps);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = heatmaps;
    text.replace(text.find(from), from.size(), to);
    return !structurally_equal(g, parse(text));
  };
  EXPECT_TRUE(changed("channels=17", "channels=16"));
  EXPECT_TRUE(changed("to_heat", "from_heat"));
  EXPECT_TRUE(changed("hbias[n]", "hbias[b,n]"));
  EXPECT_TRUE(changed(" : f16", " : f32"));
  EXPECT_FALSE(changed("t = acc", "t = (acc)"));
}

// The words mean something in their place only
TEST(HeadStores, NamesMayBeCalledSo) {
  const Graph g = parse("head = relu(acc)\nscratch = head * 2\nstore head\nstore scratch");
  EXPECT_EQ(g.stores[0].name, "head");
  EXPECT_EQ(g.stores[0].form, StoreForm::whole);
  EXPECT_EQ(g.stores[1].form, StoreForm::whole);
  UserFunction f{.name = "head", .cuda_source = "__device__ float head(float x) { return x; }"};
  EXPECT_THAT(refusal([&] { parse("store acc", {f}); }), HasSubstr("function head has the name of a form of a store"));
}

TEST(HeadStores, SyntaxErrorsSayWhatIsExpected) {
  EXPECT_THAT(refusal("y = head(acc, w, channels=3)\nstore y"),
              HasSubstr("head is a form of a store, no operation: store head(y, filter, channels=8) as p"));
  EXPECT_THAT(refusal("store scratch(acc) + 1"), HasSubstr("scratch is a form of a store, no operation"));
  EXPECT_THAT(refusal("store head(acc)"), HasSubstr("expected ', NAME' of the head's filter, found ')'"));
  EXPECT_THAT(refusal("store head(acc, 3)"), HasSubstr("expected the name of the head's filter, found '3'"));
  EXPECT_THAT(refusal("store head(acc, w)"), HasSubstr("expected ', channels=NUMBER', found ')'"));
  EXPECT_THAT(refusal("store head(acc, w, 3)"), HasSubstr("expected channels=NUMBER, found '3'"));
  EXPECT_THAT(refusal("store head(acc, w, channels=33)"),
              HasSubstr("expected a whole number of channels from 1 to 32, found 33"));
  EXPECT_THAT(refusal("store head(acc, w, channels=0.5)"), HasSubstr("from 1 to 32, found 0.5"));
  EXPECT_THAT(refusal("store acc as y\nstore head(acc, w, channels=3) { store acc as h"),
              HasSubstr("expected '}' to close the '{' of line 2, column 32; found the end of the text"));
  EXPECT_THAT(refusal("store acc as y\nstore head(acc, w, channels=3) { store acc as h } as g"),
              HasSubstr("the store within the braces has the head's name and dtype"));
  EXPECT_THAT(refusal("store acc as y }"), HasSubstr("expected an operator or the end of the line, found '}'"));
  EXPECT_THAT(of_head("store acc + y as h"), HasSubstr("'y' is of the main graph; a head reads its own acc"));
  EXPECT_THAT(of_head("store head(acc, v, channels=2) as h"), HasSubstr("a head has no head of its own"));
  EXPECT_THAT(of_head("t = acc"), HasSubstr("the graph stores nothing"));
}

TEST(HeadStores, RulesOfTheMainGraph) {
  EXPECT_THAT(
      refusal("store head(acc, w, channels=3) as h"),
      HasSubstr("store h (head) needs a store of its value itself, which says in which dtype it is multiplied"));
  EXPECT_THAT(refusal("store acc as x : f32\nstore acc as y : bf16\nstore head(acc, w, channels=3) as h"),
              HasSubstr("is of a value that x and y store; expected one store"));
  EXPECT_THAT(refusal("store acc as y : f64\nstore head(acc, w, channels=3) as h"),
              HasSubstr("multiplies y, which is stored as f64; expected f32, tf32, f16 or bf16"));
  EXPECT_THAT(refusal("store acc as y : i32\nstore head(acc, w, channels=3) as h"), HasSubstr("stored as i32"));
  EXPECT_THAT(refusal("s = sum(acc, over=m)\nstore s\nstore head(s, w, channels=3) as h"),
              HasSubstr("store h (head) is of a value with axes [n]; expected [m,n]"));
  EXPECT_THAT(refusal("store acc as y\nstore head(acc, w, channels=3) as h\nstore head(acc, v, channels=3) as g"),
              HasSubstr("store g (head) is the second head (the first is h); a graph has one"));
  EXPECT_THAT(refusal("store acc as y\nstore head(acc, w, channels=3) as h : i32"),
              HasSubstr("has dtype i32; expected a floating-point type"));
  EXPECT_THAT(refusal("store scratch(acc) as y"), HasSubstr("store y (scratch) is of a value without a head"));
  EXPECT_THAT(refusal("store scratch(acc) as y\nstore relu(acc) as z\nstore head(relu(acc), w, channels=1) as h"),
              HasSubstr("store y (scratch) is of a value without a head"));
}

TEST(HeadStores, RulesOfItsOwnGraph) {
  EXPECT_EQ(of_head("store acc * s[] + a[b,n] + c[n] + d[b] as h : bf16"), "none");
  EXPECT_THAT(of_head("store acc + r[m,n] as h"), HasSubstr("store h (head) reads 'r' with axes [m,n]"));
  EXPECT_THAT(of_head("store acc + r[m] as h"), HasSubstr("reads 'r' with axes [m]"));
  EXPECT_THAT(of_head("store softmax(acc) as h"), HasSubstr("has softmax; expected elementwise operations"));
  EXPECT_THAT(of_head("store acc + mean(acc, over=m) as h"), HasSubstr("has mean; expected elementwise operations"));
  EXPECT_THAT(of_head("store c[n] as h"), HasSubstr("stores a value with axes [n]; expected [m,n]"));
  EXPECT_THAT(of_head("store upsample_2x2(acc) as h"), HasSubstr("stores upsample_2x2(h); expected a whole store"));
  EXPECT_THAT(of_head("store acc as h\nstore 2 * acc as g"), HasSubstr("graph with 2 stores; expected one"));
  EXPECT_THAT(of_head("store acc + bias[n] as h"), HasSubstr("has a name 'bias' of the main graph's"));
  EXPECT_THAT(of_head("store acc + y[n] as h"), HasSubstr("has a name 'y' of the main graph's"));
  EXPECT_THAT(of_head("store acc as y"), HasSubstr("store y is written twice"));
  EXPECT_THAT(of_head("store acc + w[n] as h"), HasSubstr("reads an operand 'w', as its filter is called"));
  EXPECT_THAT(refusal("store acc as y\nstore head(acc, y, channels=3) as h"), HasSubstr("has a name 'y' of the main"));
  GraphBuilder b;
  b.store(b.acc(), DType::bf16, "y");
  b.store(head(b.acc(), {.channels = 33}), DType::bf16, "h");
  EXPECT_THAT(refusal([&] { b.build(); }), HasSubstr("has 33 channels; expected 1 to 32"));
}

TEST(HeadStores, AreSplitFromTheOthers) {
  const ir::SplitStores split = ir::split_stores(parse(heatmaps));
  EXPECT_TRUE(split.any());
  EXPECT_TRUE(structurally_equal(split.graph, parse("y = relu(acc + bias[n])\nstore y : bf16")));
  EXPECT_EQ(split.head_source, "y");
  EXPECT_FALSE(split.only_head);
  EXPECT_EQ(split.head->channels, 17);
  EXPECT_TRUE(structurally_equal(split.head->graph, parse("t = acc + hbias[n]\nstore t * sigmoid(t) as heat : f16")));
  const ir::SplitStores alone = ir::split_stores(parse(
      "store scratch(acc) as y : f16\nstore upsample_2x2(acc) as e : f16\nstore head(acc, w, channels=1) as h : f16"));
  EXPECT_TRUE(structurally_equal(alone.graph, parse("store acc as y : f16")));
  EXPECT_TRUE(alone.only_head);
  EXPECT_FALSE(alone.only_upsampled);
  EXPECT_EQ(alone.source, "y");
}

TEST(HeadStores, Shapes) {
  const Graph g = parse(heatmaps);
  Conv2d c{.n = 2, .h = 9, .w = 7, .c = 3, .k = 5};
  EXPECT_THAT(ir::shape_of(g.stores[1], c), ElementsAre(2, 9, 7, 17));
  c.layout = Layout::nchw;
  EXPECT_THAT(ir::shape_of(g.stores[1], c), ElementsAre(2, 17, 9, 7));
  EXPECT_THAT(shape_b(ir::head_contraction(c, 17, DType::bf16)), ElementsAre(17, 5, 1, 1));
  const Gemm product{.m = 6, .n = 5, .k = 4};
  EXPECT_THAT(ir::shape_of(g.stores[1], product), ElementsAre(1, 6, 17));
  EXPECT_THAT(shape_b(ir::head_contraction(product, 17, DType::f32)), ElementsAre(1, 17, 5));
  EXPECT_THROW(ir::check_forms(g, Gemm{.batch = 2, .m = 6, .n = 5, .k = 4}), Unsupported);
}

}  // namespace
}  // namespace unisono
