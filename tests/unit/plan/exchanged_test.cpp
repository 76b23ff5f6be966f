#include "plan/exchanged.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/analyse.hpp"
#include "plan/second_pass.hpp"
#include "plan/visitor_shape.hpp"
#include "support/says.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::plan {
namespace {

using testing::HasSubstr;
using StorePath = Output::StorePath;

constexpr Extents extents{.images = 2, .height = 16, .width = 16, .cols = 64};

constexpr const char* backward =
    "operand x[m,n] : bf16\nh = (x - mu[b,g4]) * rstd[b,g4]\nz = h * gamma[n] + beta[n]\ns = sigmoid(z)\n"
    "dz = acc * (s * (1 + z * (1 - s)))\ndh = dz * gamma\n"
    "dx = rstd * (dh - mean(dh, over=(m,n), per=b, groups=4) - h * mean(dh * h, over=(m,n), per=b, groups=4))\n"
    "store dx as y : bf16\nstore sum(dz * h, over=m) as dgamma : f32\nstore sum(dz, over=m) as dbeta : f32\n"
    "store sum(dx, over=m) as dbias : f32";

passes::EpilogueGraphs graphs_of(const std::string& text) {
  return passes::EpilogueGraphs(passes::run_pipeline(parse(text)));
}

Expected<Epilogue> found_exchanged(const std::string& text) { return analyse_exchanged(graphs_of(text), extents); }

std::string refusal_of_exchanged(const std::string& text) {
  const auto e = found_exchanged(text);
  return e ? "" : e.refusal().first();
}

TEST(Exchanged, ANormalisationsBackwardPassHasTwoSumsAndOneValueThatWaits) {
  const Epilogue e = found_exchanged(backward).value();
  ASSERT_TRUE(e.exchanging());
  EXPECT_EQ(e.norm(), nullptr);
  EXPECT_EQ(e.graph[*e.exchanging()->waits].name, "dh");
  EXPECT_EQ(e.ahead(), e.exchanging()->waits);
  EXPECT_EQ(e.behind(), e.exchanging()->waits);
  EXPECT_EQ(e.exchanging()->reductions().size(), 2u);
  ASSERT_TRUE(e.exchanged());
  EXPECT_EQ(e.exchanged()->group_channels, 16);
  EXPECT_FALSE(e.exchanged()->batch);
  EXPECT_TRUE(e.per_image());
  ASSERT_EQ(e.folds().size(), 1u);
  EXPECT_EQ(e.folds()[0].reductions().size(), 3u);
  EXPECT_EQ(e.ahead_of_stages().tensors.size(), 1u);
  EXPECT_EQ(e.reads.tensors.size(), 1u);
  const VisitorShape shape = visitor_shape(e);
  EXPECT_TRUE(shape.normalises);
  EXPECT_TRUE(shape.folds_ahead);
  EXPECT_FALSE(shape.returns);
  EXPECT_EQ(shape.exchanged, 2);
  const std::vector<bool> behind = behind_statistics(e);
  for (const ValueId id : e.folds()[0].reductions())
    EXPECT_EQ(behind[e.graph[id].inputs[0]], e.graph[e.graph[id].inputs[0]].name == "dx");
}

// It is a form beside the general one, which other families have
TEST(Exchanged, IsAFormOfTheGraph) {
  const Forms forms = analyse_forms(graphs_of(backward), extents, {.channels = 256}).value();
  ASSERT_EQ(forms.list.size(), 2u);
  EXPECT_TRUE(forms.list[0].general());
  EXPECT_TRUE(forms.list[1].exchanging());
  EXPECT_FALSE(forms.list[1].general());
}

TEST(Exchanged, OverAllImagesAndOfEachChannel) {
  const Epilogue batch =
      found_exchanged("store acc * rstd[n] - mean(acc, over=m) - mean(acc * 2 + 1, over=m) as y : bf16").value();
  EXPECT_EQ(batch.exchanged()->group_channels, 1);
  EXPECT_TRUE(batch.exchanged()->batch);
  EXPECT_FALSE(batch.per_image());
  EXPECT_THAT(refusal_of_exchanged("store acc * t[b] - max(acc, over=m) as y : bf16"),
              Says("value of an image … all images"));
}

TEST(Exchanged, ReductionsOfAnyKindButVariances) {
  const Epilogue e = found_exchanged(
                         "a = max(acc, over=(m,n), per=b)\nb = sum_squares(acc, over=(m,n), per=b)\n"
                         "store acc * a + b as y : f32\nstore acc - min(acc, over=(m,n), per=b) as z : bf16")
                         .value();
  EXPECT_EQ(e.exchanging()->reductions().size(), 3u);
  EXPECT_TRUE(e.wide_main());
  EXPECT_THAT(refusal_of_exchanged("store acc - variance(acc * 2, over=m, per=b) as y : bf16"),
              Says("a variance … other statistics"));
}

TEST(Exchanged, Refusals) {
  EXPECT_THAT(refusal_of_exchanged("store acc * sum(acc, over=m, per=b) - max(acc, over=m) as y : bf16"),
              HasSubstr("other rows or channels"));
  EXPECT_THAT(refusal_of_exchanged("a = max(acc, over=m, per=b)\nstore acc - sum(acc - a, over=m, per=b) as y : bf16"),
              HasSubstr("values that read another"));
  EXPECT_THAT(refusal_of_exchanged("store silu(acc) * max(acc, over=m, per=b) + exp(acc) as y : bf16"),
              Says("one value … waits"));
  EXPECT_THAT(refusal_of_exchanged("store r[m,n] * max(acc, over=m, per=b) as y : bf16"), HasSubstr("read no value"));
  EXPECT_THAT(refusal_of_exchanged("store acc * max(acc, over=m, per=b) + mean(acc, over=n) as y : bf16"),
              HasSubstr("over a row's channels"));
  EXPECT_THAT(refusal_of_exchanged("store acc as y : bf16"), HasSubstr("no reduction over rows"));
}

// What elements read again and what is stored may be the same: it is reduced for either
TEST(Exchanged, AStoredResultIsReducedOnceMore) {
  const Epilogue e =
      found_exchanged("a = max(acc, over=m, per=b)\nstore acc * a as y : bf16\nstore a * 2 as top : f32").value();
  ASSERT_EQ(e.folds().size(), 1u);
  EXPECT_EQ(e.folds()[0].reductions(), e.exchanging()->reductions());
}

}  // namespace
}  // namespace unisono::plan
