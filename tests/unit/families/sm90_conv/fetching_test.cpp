// Operands [m,n] that TMA brings: which, by which plans, and what is refused.

#include "families/sm90_conv/fetching.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/registry.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* residual = "operand r[m,n] : bf16\nstore silu(acc + bias[n]) + r as y : bf16";
constexpr const char* three =
    "operand r1[m,n] : bf16\noperand r2[m,n] : f16\noperand r3[m,n] : bf16\nstore acc + r1 + r2 + r3 as y : bf16";
constexpr const char* six =
    "operand r1[m,n] : bf16\noperand r2[m,n] : f16\noperand r3[m,n] : bf16\noperand r4[m,n] : bf16\n"
    "operand r5[m,n] : f16\nstore acc + r1 * r2 + r3 * r4 - r5 + r6[m,n] as y : bf16";
constexpr const char* words = "operand r[m,n] : f32\nstore acc + r as y : bf16";

std::vector<Answer> all(const Conv2d& conv, const Epilogue& e, const char* fixed = "") {
  return candidates(conv, e, Device{}, parse_plan(fixed));
}

std::vector<Answer> all(const char* text, const char* fixed = "") {
  const Conv2d conv = test::conv_of(4, 64, 64, 128, 128, 3);
  return all(conv, test::epilogue_of(text, conv), fixed);
}

// Each configuration has a candidate without, one with an operand, one with all
TEST(Fetching, IsAChoiceWhereThereIsWhatToFetch) {
  std::map<std::optional<int>, int> counts;
  for (const Answer& c : all(three)) ++counts[c.plan.config.features.fetch];
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_GT(counts[0], 100);
  EXPECT_GT(counts[1], counts[0] / 2);  // what leaves the stages no lead is left out
  EXPECT_GT(counts[3], counts[0] / 4);
  for (const char* text : {test::bare, words})
    for (const Answer& c : all(text)) EXPECT_EQ(c.plan.config.features.fetch, std::nullopt);
}

// Five of six: none is loaded one by one, but the f32 one
TEST(Fetching, OfMoreThanThree) {
  std::map<std::optional<int>, int> counts;
  for (const Answer& c : all(six)) ++counts[c.plan.config.features.fetch];
  ASSERT_EQ(counts.size(), 4u);
  for (const int fetched : {0, 1, 3, 5}) EXPECT_GT(counts[fetched], 0) << fetched;
  const Conv2d conv = test::conv_of(4, 64, 64, 128, 128, 3);
  EXPECT_THAT(explain(conv, test::epilogue_of(six, conv), Device{}, parse_plan("fetch=5")),
              HasSubstr("operands [m,n]: 5 of 6 by TMA into the staging buffers"));
}

// What the graph does not declare has the dtype that it is bound with: f32 if nobody says
TEST(Fetching, KnowsHowOperandsAreBound) {
  const Conv2d conv = test::conv_of(4, 64, 64, 128, 128, 3);
  Epilogue e = test::epilogue_of("store acc + r[m,n] + q[m,n] as y : bf16", conv);
  EXPECT_TRUE(fetchable_operands(e).empty());
  e.storage = {{"q", DType::f16}};
  ASSERT_EQ(fetchable_operands(e).size(), 1u);
  EXPECT_EQ(e.graph[fetchable_operands(e)[0]].attr.name, "q");
  EXPECT_EQ(choose(conv, e, Device{}, parse_plan("fetch=1")).config.features.fetch, 1);
  e.storage = {{"q", DType::f16}, {"r", DType::boolean}};
  EXPECT_EQ(fetchable_operands(e).size(), 1u);
}

// Ahead of a normalisation, where a residual block has them, rather than behind it
TEST(Fetching, AheadOfANormalisationFirst) {
  const Conv2d conv = test::conv_of(4, 64, 64, 128, 128, 3);
  const auto fetched = [&](const std::string& operands) {
    const auto e = test::epilogue_of(operands +
                                         "h = acc + q\nstore h : bf16\nstore group_norm(h, groups=8) + r as "
                                         "y : bf16",
                                     conv);
    const auto list = fetchable_operands(e);
    return list.size() == 1 ? e->graph[list[0]].attr.name : "";
  };
  EXPECT_EQ(fetched("operand q[m,n] : bf16\noperand r[m,n] : bf16\n"), "q");
  EXPECT_EQ(fetched("operand q[m,n] : f32\noperand r[m,n] : bf16\n"), "r");
}

// A tile's slices all have a buffer where the stages keep their lead; four warps that write one slice need two
TEST(Fetching, TradesBuffersAgainstStages) {
  const Conv2d narrow = test::conv_of(8, 256, 256, 64, 64, 3);
  const ConvPlan whole = choose(narrow, test::epilogue_of(residual, narrow), Device{},
                                parse_plan("tile=256x64 order=pingpong swap=on load=halo cluster=1x1 fetch=1"));
  EXPECT_EQ(whole.config.features.store_buffers, stores_per_tile(whole.config));
  const Gemm g{.m = 4096, .n = 4096, .k = 4096, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  const Epilogue e = analyse(passes::run_pipeline(parse(three)), extents(g), families::tile_limits()).value();
  const ConvPlan some =
      choose(as_convolution(g), e, Device{}, parse_plan("tile=128x128 order=pingpong cluster=1x1 swap=off fetch=3"));
  EXPECT_EQ(some.config.features.store_buffers, 1);
  EXPECT_EQ(some.config.schedule.stages, 5);
  for (const Answer& c : all(residual, "fetch=1"))
    EXPECT_GE(c.plan.config.features.store_buffers,
              c.plan.config.schedule.swap ? std::min(2, stores_per_tile(c.plan.config)) : 1);
}

TEST(Fetching, CostsLessThanLoads) {
  for (const char* text : {residual, three}) {
    const ConvPlan best = all(text)[0].plan, without = all(text, "fetch=0")[0].plan;
    EXPECT_GT(best.config.features.fetch.value_or(0), 0);
    EXPECT_LT(best.predicted_us, without.predicted_us);
  }
}

TEST(Fetching, IsPartOfThePlansText) {
  const ConvPlan p = all(residual, "tile=128x128 fetch=1 buffers=3")[0].plan;
  EXPECT_THAT(to_string(p.config), HasSubstr(" fetch 1x3"));
  EXPECT_THAT(to_string(override_of(p.config)), HasSubstr("fetch=1"));
  EXPECT_THAT(to_string(override_of(all(residual, "fetch=0")[0].plan.config)), HasSubstr("fetch=0"));
  EXPECT_EQ(to_string(override_of(all(test::bare)[0].plan.config)).find("fetch"), std::string::npos);
  const Conv2d conv = test::conv_of(4, 64, 64, 128, 128, 3);
  const auto said = [&](const char* text, const char* fixed) {
    return explain(conv, test::epilogue_of(text, conv), Device{}, parse_plan(fixed));
  };
  EXPECT_THAT(said(residual, "tile=128x128 order=pingpong fetch=1 buffers=3"),
              HasSubstr("operands [m,n]: by TMA into the staging buffers, 3 of the 4 slices"));
  EXPECT_THAT(said(three, "fetch=1"), HasSubstr("operands [m,n]: 1 of 3 by TMA"));
  EXPECT_THAT(said(residual, "fetch=0"), HasSubstr("operands [m,n]: by ordinary loads"));
  EXPECT_THAT(said(words, ""), HasSubstr("operands [m,n]: by ordinary loads"));
  EXPECT_EQ(said(test::bare, "").find("operands"), std::string::npos);
}

std::string refusal(const ConvTask& task, const char* text, const char* fixed) {
  try {
    const test::Analysed forms{
        plan::analyse_forms(passes::run_pipeline(parse(text)), extents(task.contraction()), families::tile_limits())
            .value()};
    choose(task, forms, Device{}, parse_plan(fixed));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Fetching, Refused) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3), odd = test::conv_of(2, 32, 32, 64, 60, 3);
  ConvTranspose2d twice{
      .n = 2, .h = 8, .w = 8, .c = 64, .k = 64, .r = 4, .s = 4, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
  twice.dtype_x = twice.dtype_w = DType::bf16;
  const char* normed = "operand r[m,n] : bf16\nstore group_norm(acc, groups=8) + r as y : bf16";
  const char *whole = "operand r[m,n] : bf16\nstore softmax(acc + r, over=n) as y : bf16",
             *by_channel = "operand r[m,n] : bf16\nstore max(acc + r, over=m) as top : f32";
  EXPECT_THAT(refusal(conv, residual, "fetch=2"), HasSubstr("fetch: 2 operands; 1 [m,n] of 16 bits"));
  EXPECT_THAT(refusal(conv, six, "fetch=6"), HasSubstr("fetch: 6 operands; 5 [m,n] of 16 bits"));
  EXPECT_THAT(refusal(conv, words, "fetch=1"), HasSubstr("fetch: 1 operands; 0 [m,n] of 16 bits on one side"));
  EXPECT_THAT(refusal(odd, residual, "fetch=1"), HasSubstr("leave by ordinary stores"));
  EXPECT_THAT(refusal(*by_phases(twice), residual, "fetch=1"), HasSubstr("a parity phase"));
  EXPECT_THAT(refusal(conv, normed, "fetch=1 mode=streamed"), HasSubstr("staging buffers hold tiles"));
  EXPECT_THAT(refusal(conv, whole, "fetch=1 mode=general"), HasSubstr("passes over a tile"));
  EXPECT_EQ(refusal(conv, whole, "fetch=1"), "no error");  // as a normalisation of rows
  EXPECT_THAT(refusal(conv, by_channel, "fetch=1 tile=128x64 order=pingpong"), HasSubstr("128 rows of a warpgroup"));
  EXPECT_EQ(refusal(conv, by_channel, "fetch=1 tile=64x64"), "no error");
  EXPECT_THAT(refusal(conv, residual, "fetch=9"), HasSubstr("plan override: fetch=9: expected 0 to 8 operands"));
  EXPECT_EQ(refusal(conv, normed, "fetch=1 mode=resident"), "no error");
  EXPECT_EQ(refusal(odd, residual, "fetch=0"), "no error");
}

}  // namespace
}  // namespace unisono::families::sm90_conv
