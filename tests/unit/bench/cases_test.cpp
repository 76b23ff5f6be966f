// Cases of the benchmark as text.

#include "bench/cases.hpp"

#include <gmock/gmock.h>

#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {
namespace {

using testing::HasSubstr;

constexpr const char* block =
    "suite block\n"
    "epilogue block\n"
    "  h = acc + bias[n]   # before\n"
    "  store silu(group_norm(h, groups=4, scale=gamma[n], shift=beta[n])) as y : {dtype}\n"
    "case 2,16,12,64,32,3\n";

/// The message of the UserError that parsing throws; empty if it throws none.
std::string error_of(const std::string& text) {
  try {
    parse_suite(text, "cases.txt");
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(Cases, ShapeIsNhwcWithHalfTheFilterAsPadding) {
  const Suite s = parse_suite(block, "cases.txt");
  EXPECT_EQ(s.name, "block");
  ASSERT_EQ(s.cases.size(), 1u);
  const Case& c = s.cases[0];
  EXPECT_EQ(c.name, "2,16,12,64,32,3");
  EXPECT_EQ(shape_a(Contraction(c.conv)), (std::vector<std::int64_t>{2, 16, 12, 64}));
  EXPECT_EQ(shape_b(Contraction(c.conv)), (std::vector<std::int64_t>{32, 3, 3, 64}));
  EXPECT_EQ(c.conv.pad, Margins(1));
  EXPECT_EQ(c.conv.dtype_x, DType::bf16);
  EXPECT_EQ(c.graph.stores[0].dtype, DType::bf16);
  EXPECT_EQ(c.text,
            "h = acc + bias[n]\nstore silu(group_norm(h, groups=4, scale=gamma[n], shift=beta[n])) as y : bf16\n");
  EXPECT_FALSE(c.is_bare());
}

TEST(Cases, GradientsOfImages) {
  const Case c = parse_suite(
                     "suite s\nepilogue bare\n  store acc as y : {dtype}\n"
                     "case 2,16,12,64,32,3 stride=2 dgrad dtype=f16\n",
                     "cases.txt")
                     .cases[0];
  EXPECT_TRUE(c.dgrad && c.is_bare());
  EXPECT_EQ(shape_a(c.contraction()), (std::vector<std::int64_t>{2, 8, 6, 32}));
  EXPECT_EQ(shape_b(c.contraction()), shape_b(Contraction(c.conv)));
  EXPECT_EQ(shape_mn(c.contraction()), (std::vector<std::int64_t>{2, 16, 12, 64}));
  EXPECT_EQ(c.contraction().index(), c.bare_contraction().index());
  EXPECT_EQ(c.bytes(), 2.0 * (2 * 8 * 6 * 32 + 32 * 9 * 64 + 2 * 16 * 12 * 64));
}

TEST(Cases, RivalsOfTheCasesThatFollow) {
  const Suite s = parse_suite(
      "suite s\nepilogue bare\n  store acc as y : {dtype}\ncase 8,8,8\n"
      "rival other family=plain\n"
      "rival cutlass family=cutlass_evt arch=sm80   # three\n"
      "  tile=128x128\n  tile=64x64 stages=4\n"
      "case 16,8,8\n"
      "rival other family=plain tile=8x8\n"
      "case 24,8,8\n",
      "cases.txt");
  EXPECT_TRUE(s.cases[0].rivals.empty());
  ASSERT_EQ(s.cases[1].rivals.size(), 2u);
  EXPECT_EQ(s.cases[1].rivals[0].plans, std::vector<std::string>{"family=plain"});
  EXPECT_EQ(s.cases[1].rivals[1].name, "cutlass");
  EXPECT_EQ(s.cases[1].rivals[1].plans, (std::vector<std::string>{"family=cutlass_evt arch=sm80 tile=128x128",
                                                                  "family=cutlass_evt arch=sm80 tile=64x64 stages=4"}));
  ASSERT_EQ(s.cases[2].rivals.size(), 2u);
  EXPECT_EQ(s.cases[2].rivals[1].plans, std::vector<std::string>{"family=plain tile=8x8"}) << "in place of the first";
  EXPECT_THAT(error_of(std::string(block) + "rival cutlass\n"), HasSubstr("cases.txt:6: rival cutlass needs a plan"));
  EXPECT_THAT(error_of("suite s\n  tile=64x64\n"), HasSubstr("epilogue or a rival"));
}

TEST(Cases, OptionsOfACase) {
  const Suite s =
      parse_suite(std::string(block) +
                      "case 1,9,8,16,24,3x1 stride=2 dilation=2 dtype=f16 name=odd plan=tile=128x64 mode=streamed\n"
                      "case 1,9,8,16,24,3 pad=0\n",
                  "cases.txt");
  const Case& c = s.cases.at(1);
  EXPECT_EQ(c.name, "odd");
  EXPECT_EQ(c.plan, "tile=128x64 mode=streamed");
  EXPECT_EQ(c.conv.r, 3);
  EXPECT_EQ(c.conv.s, 1);
  EXPECT_EQ(c.conv.stride, Pair(2));
  EXPECT_EQ(c.conv.pad, Margins(2, 0, 2, 0));
  EXPECT_EQ(c.graph.stores[0].dtype, DType::f16);
  EXPECT_EQ(s.cases.at(2).conv.pad, Margins(0));
}

TEST(Cases, TitlesTellCasesOfOneShapeApart) {
  const Suite s = parse_suite(
      "suite e\nepilogue bare\n store acc as y : bf16\ncase 1,8,8,8,8,1\nepilogue relu\n store relu(acc) as y : "
      "bf16\ncase "
      "1,8,8,8,8,1\n",
      "f");
  EXPECT_EQ(s.cases.at(0).name, "1,8,8,8,8,1 bare");
  EXPECT_EQ(s.cases.at(1).name, "1,8,8,8,8,1 relu");
  EXPECT_TRUE(s.cases[0].is_bare());
  EXPECT_FALSE(s.cases[1].is_bare());
}

TEST(Cases, BytesCountEveryOperandAndOutputOnce) {
  const Suite s = parse_suite(
      "suite e\nepilogue r\n operand r[m,n] : bf16\n h = acc + t[b,n] + t[b,n]\n store h + r as y : bf16\n store h : "
      "f16\ncase "
      "2,8,4,16,32,3\n",
      "f");
  const double image = 2 * 8 * 4 * 16 * 2, filter = 32 * 9 * 16 * 2, full = 2 * 8 * 4 * 32 * 2, per_image = 2 * 32 * 4;
  EXPECT_EQ(s.cases.at(0).bytes(), image + filter + 3 * full + per_image);
  EXPECT_EQ(s.cases.at(0).flop(), 2.0 * 2 * 8 * 4 * 32 * 16 * 9);
}

TEST(Cases, StoresMayHaveAnyForm) {
  const std::string text =
      "suite forms\nepilogue forms\n  y = relu(acc)\n  store y : {dtype}\n  store upsample_2x2(y) as e : {dtype}\n";
  const Case c = parse_suite(text + "case 2,16,12,64,32,3\n", "cases.txt").cases[0];
  const double pixels = 2 * 16 * 12, image = pixels * 64, filter = 32 * 9 * 64;
  EXPECT_EQ(c.bytes(), 2 * (image + filter + 5 * pixels * 32));
  EXPECT_EQ(c.flop(), 2 * pixels * 32 * 9 * 64);
  EXPECT_FALSE(c.is_bare());
  EXPECT_THAT(error_of("suite s\nepilogue e\n  store upsample_2x2(acc) as e : bf16\ncase 64,64,64\n"),
              HasSubstr("has no image; expected a convolution"));
}

TEST(Cases, SetsExceedTheCacheSeveralTimes) {
  EXPECT_EQ(rotating_sets(12.5e6), 16);
  EXPECT_EQ(rotating_sets(3e9), 2);
  EXPECT_EQ(rotating_sets(1000), 128);
  EXPECT_GE(rotating_sets(67e6) * 67e6, 200e6);
}

TEST(Cases, OnlyKeepsByName) {
  Suite s = parse_suite(std::string(block) + "case 1,8,8,8,8,1\n", "f");
  keep_only(s, "1,8,8");
  ASSERT_EQ(s.cases.size(), 1u);
  try {
    keep_only(s, "9,9");
    FAIL() << "no case has that name";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), Says("'9,9' fits no case … block; there are:\n  1,8,8,8,8,1"));
  }
}

TEST(Cases, Volumes) {
  const std::string head = "suite s\nepilogue e\n  store acc as y : {dtype}\n";
  const Case c = parse_suite(head + "case 2,9,8,16,24,3 planes=5 causal dtype=f16\n", "cases.txt").cases.at(0);
  ASSERT_TRUE(c.volume);
  EXPECT_EQ(c.volume->d, 5);
  EXPECT_EQ(c.volume->t, 3);
  EXPECT_EQ(c.volume->before, (Triple{2, 1, 1}));
  EXPECT_EQ(c.volume->after, (Triple{0, 1, 1}));
  EXPECT_EQ(c.volume->dtype_w, DType::f16);
  EXPECT_EQ(c.conv.h, 45);
  EXPECT_EQ(c.flop(), 2.0 * 2 * 5 * 9 * 8 * 24 * 16 * 27);
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,3 causal\n"), HasSubstr("expected planes= beside it"));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,3 planes=2 dgrad\n"), HasSubstr("neither dgrad nor layout=nchw"));
}

TEST(Cases, ErrorsNameTheLineAndWhatWasExpected) {
  const std::string head = "suite s\nepilogue e\n  store acc as y : {dtype}\n";
  EXPECT_THAT(error_of("epilogue e\n store acc\ncase 1,8,8,8,8,1\n"),
              HasSubstr("cases.txt: expected a line 'suite NAME'"));
  EXPECT_THAT(error_of("suite s\n"), HasSubstr("it has no cases"));
  EXPECT_THAT(error_of("suite s\ncase 1,8,8,8,8,1\n"), Says("cases.txt:2: a case needs … epilogue"));
  EXPECT_THAT(error_of("suite s\n  store acc\n"), HasSubstr("cases.txt:2: an indented line"));
  EXPECT_THAT(error_of("suite\n"), HasSubstr("cases.txt:1: 'suite' needs more"));
  EXPECT_THAT(error_of(head + "block 1,8,8,8,8,1\n"),
              HasSubstr("cases.txt:4: 'block' is unknown; expected suite, epilogue, rival or case"));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,1\n"),
              HasSubstr("cases.txt:4: the shape '1,8,8,8,1' has 5 parts; expected N,H,W,C,K,R"));
  EXPECT_THAT(error_of(head + "case 1,8,x,8,8,1\n"), Says("W is 'x'; expected … at least 1"));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,0\n"), HasSubstr("R is '0'"));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,1x1x1\n"), HasSubstr("expected R or RxS"));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,1 dtype=f64\n"), HasSubstr("dtype=f64: expected bf16, f16 or f32"));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,1 layout=chwn\n"), HasSubstr("layout=chwn: expected nhwc or nchw"));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,1 strides=2\n"), HasSubstr("'strides=2' is unknown; expected dtype="));
  EXPECT_THAT(error_of(head + "case 1,8,8,8,8,1\ncase 1,8,8,8,8,1\n"),
              Says("cases.txt:5: a second case … '1,8,8,8,8,1'"));
  EXPECT_THAT(error_of(head + "case 1,2,2,8,8,5 pad=0\n"), HasSubstr("case 1,2,2,8,8,5 with epilogue 'e'"));
  EXPECT_THAT(error_of("suite s\nepilogue e\n  store mihs(acc)\ncase 1,8,8,8,8,1\n"),
              HasSubstr("did you mean 'mish'?"));
  EXPECT_EQ(error_of(head + "case 1,8,8,8,8,1\n"), "");
}

}  // namespace
}  // namespace unisono::bench
