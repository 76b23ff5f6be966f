#include "plan/second_pass.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/analyse.hpp"
#include "plan/visitor_shape.hpp"
#include "support/says.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::plan {
namespace {

using testing::HasSubstr;
using StorePath = Output::StorePath;

constexpr Extents extents{.images = 2, .height = 16, .width = 16, .cols = 64};

Expected<Epilogue> found(const std::string& text) {
  return analyse_second_pass(passes::EpilogueGraphs(passes::run_pipeline(parse(text))), extents);
}

std::string refusal_of(const std::string& text) {
  const auto e = found(text);
  return e ? "" : e.refusal().first();
}

std::string names(const Epilogue& e, StorePath path) {
  std::string text;
  for (const Output& o : e.outputs)
    if (o.path == path) text += (text.empty() ? "" : " ") + e.graph.stores[o.store].name;
  return text;
}

TEST(SecondPass, AStoreOfF32IsWhereTilesWait) {
  const Epilogue e = found("y = group_norm(acc, groups=4)\nstore y : f32\nstore relu(y) as z : bf16").value();
  EXPECT_TRUE(e.results == Results::any);
  EXPECT_TRUE(e.wide_main());
  EXPECT_EQ(names(e, StorePath::after), "y");
  EXPECT_EQ(names(e, StorePath::direct), "z");
  EXPECT_FALSE(e.side_after());
}

// A normalisation of rows gives elements y alone: whoever reads the mean itself is computed by general reductions
TEST(SecondPass, AMeanThatElementsReadIsAReduction) {
  const auto e = analyse(passes::run_pipeline(parse("store silu(layer_norm(acc)) * mean(acc, over=n) as y : bf16")),
                         extents, {.channels = 256});
  ASSERT_TRUE(e);
  EXPECT_TRUE(e->general());
}

TEST(SecondPass, WithoutF32TheLastStoreIs) {
  const Epilogue e =
      found("y = group_norm(acc, groups=4)\nstore y : bf16\nstore relu(y) as z : f16\nstore y * y as w : bf16").value();
  EXPECT_FALSE(e.wide_main());
  EXPECT_EQ(names(e, StorePath::after), "w");
  EXPECT_EQ(names(e, StorePath::direct), "z y");
}

TEST(SecondPass, OneStoreOf16BitsAhead) {
  const Epilogue e = found("h = acc + bias[n]\nstore h : bf16\nstore group_norm(h, groups=4) as y : f32").value();
  EXPECT_TRUE(e.side_before());
  EXPECT_EQ(names(e, StorePath::before), "h");
  EXPECT_THAT(refusal_of("h = acc + bias[n]\nstore h : f32\nstore group_norm(h, groups=4) as y : f32"),
              Says("only one value … stored, as bf16 or f16"));
}

TEST(SecondPass, ValuesOfRowsAndCoordinatesBehind) {
  const Epilogue e =
      found("store group_norm(acc, groups=4) * w[m] + cast(index(h), f32) + cast(index(n), f32) as y : f32").value();
  EXPECT_EQ(e.reads.rows.size(), 2u);
  EXPECT_EQ(e.reads.columns.size(), 1u);
  EXPECT_THAT(refusal_of("store group_norm(acc * w[m], groups=4) as y : f32"),
              HasSubstr("row before the normalisation"));
}

// Their elements are ahead of the normalisation or behind it; functions of them share what they run over
TEST(SecondPass, StoredReductionsOfEitherSide) {
  const Epilogue e =
      found(
          "h = acc + bias[n]\ny = group_norm(h, groups=4)\nstore y : f32\nstore mean(square(y - r[m,n])) as "
          "loss : f32\nstore sum(h, over=m, per=b) + max(y, over=m, per=b) as both : f32\nstore variance(h, "
          "over=(m,n), per=b, groups=2) as v : f32")
          .value();
  ASSERT_EQ(e.folds().size(), 3u);
  EXPECT_EQ(names(e, StorePath::reduced), "v both loss");
  EXPECT_EQ(e.reads.tensors.size(), 1u);
  const VisitorShape shape = visitor_shape(e);
  EXPECT_TRUE(shape.folds_ahead);
  EXPECT_EQ(shape.fold_words, 4);  // two folds of a channel, a mean and an M2
  EXPECT_EQ(shape.tile_folds, 1);
  EXPECT_FALSE(visitor_shape(found("y = group_norm(acc, groups=4)\nstore y : f32\nstore sum(y) as s : f32").value())
                   .folds_ahead);
}

// The normalisation's own statistics are known already; with others they are reduced once more
TEST(SecondPass, FunctionsOfTheStatistics) {
  const Epilogue own =
      found("store group_norm(acc, groups=4) as y : f32\nstore mean(acc, over=(m,n), per=b, groups=4) as mu : f32")
          .value();
  EXPECT_EQ(names(own, StorePath::statistics), "mu");
  EXPECT_TRUE(own.folds().empty());
  const Epilogue more =
      found(
          "y = group_norm(acc, groups=4)\nstore y : f32\nstore mean(acc, over=(m,n), per=b, groups=4) + "
          "max(y, over=(m,n), per=b, groups=4) as mu : f32")
          .value();
  EXPECT_EQ(names(more, StorePath::reduced), "mu");
  ASSERT_EQ(more.folds().size(), 1u);
  EXPECT_EQ(more.folds()[0].folds.size(), 2u);
}

// With what would be served
TEST(SecondPass, RefusesWhatItDoesNotServe) {
  const char* served = "one normalisation … pixels";
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {"store group_norm(relu(group_norm(acc, groups=4)), groups=4) as y : f32", "a second value"},
           {"y = group_norm(acc, groups=4)\nstore y : f32\nstore sum(y, over=n) as s : f32", "not sum"},
           {"y = group_norm(acc, groups=4)\nstore y : f32\nstore sum(y, over=m) + mean(y) as s : f32",
            "combines reductions … different rows or channels"},
           {"h = acc * w[m]\nstore group_norm(acc, groups=4) as y : f32\nstore sum(h) as s : f32",
            "row before the normalisation"},
           {"y = group_norm(acc, groups=4)\nstore y : f32\nstore sum(y * acc) as s : f32", "is gone by then"},
           {"h = acc + bias[n]\nstore group_norm(h, groups=4) + h as y : f32", "is gone by then"},
           {"store layer_norm(acc) as y : f32", ""},
           {"store cast(group_norm(acc, groups=4), i32) as y : i32", "bf16, f16 or f32 there, and y is i32"}}) {
    EXPECT_THAT(refusal_of(text), Says(reason)) << text;
    EXPECT_THAT(refusal_of(text), Says(served)) << text;
  }
}

// The general form stays the first choice; where its tiles do not fit it is said what else was looked at
TEST(SecondPass, StandsBesideTheGeneralForm) {
  const auto both = [](const std::string& text) {
    return analyse_forms(passes::run_pipeline(parse(text)), extents, {.channels = 256}).value();
  };
  const Forms wide = both("store group_norm(acc, groups=4) as y : f32");
  ASSERT_EQ(wide.list.size(), 2u);
  EXPECT_TRUE(wide.list[0].general());
  EXPECT_TRUE(wide.list[1].results == Results::any);
  const Forms twice = both("store group_norm(relu(group_norm(acc, groups=4)), groups=4) as y : f32");
  EXPECT_EQ(twice.list.size(), 1u);
  EXPECT_THAT(twice.not_streamed, HasSubstr("a second value"));
  // What a mode of normalising serves has the general form beside it, for what those do not
  const Forms narrow = both("store group_norm(acc, groups=4) as y : bf16");
  EXPECT_TRUE(narrow.list[0].norm() && narrow.list.size() == 2 && narrow.list[1].general());
  EXPECT_EQ(both("store relu(acc) as y : bf16").list.size(), 1u);
}

}  // namespace
}  // namespace unisono::plan
