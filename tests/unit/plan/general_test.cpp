#include "plan/general.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/refusal.hpp"
#include "problems.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::plan {
namespace {

constexpr Extents extents{.images = 2, .height = 16, .width = 16, .cols = 64};

Epilogue analysed(std::string_view text) {
  const auto nothing = [](std::span<const double>) { return 0.0; };
  return analyse(passes::run_pipeline(parse(text, {{"observe", 1, false, "", nothing}})), extents, {.channels = 256})
      .value();
}

std::string texts(const Epilogue& e, const std::vector<ValueId>& values) {
  std::string text;
  for (const ValueId v : values) text += (text.empty() ? "" : ", ") + text_of(e.graph, v);
  return text;
}

// What is stored where, the levels of reductions over channels, and the reductions over rows
std::string describe(const Epilogue& e) {
  verify(e.graph);
  if (!e.general()) return "not general";
  std::string text;
  constexpr std::array paths{"before", "tiled", "statistics", "direct", "row", "reduced", "grouped"};
  for (const Output& o : e.outputs)
    text += fmt::format("{}: {}\n", paths[static_cast<std::size_t>(o.path)], e.graph.stores[o.store].name);
  for (const Stage& s : e.levels()) text += s.rows().empty() ? "" : fmt::format("level: {}\n", texts(e, s.rows()));
  for (std::size_t l = 0; l < e.levels().size(); ++l) {
    const Stage& s = e.levels()[l];
    if (!s.groups().empty()) text += fmt::format("level {}, groups: {}\n", l, texts(e, s.groups()));
    for (const Statistics& d : s.over_rows())
      text += fmt::format("level {}, returned, {} groups{}: {}{}{}\n", l, d.groups(),
                          d.domain.per_image ? " per image" : "", texts(e, d.folds),
                          d.moments.empty() ? "" : "moments " + texts(e, d.moments),
                          d.means == d.moments ? "" : " with " + texts(e, d.means));
  }
  for (const Statistics& d : e.folds())
    text += fmt::format("{} groups{}: {}{}\n", d.groups(), d.domain.per_image ? " per image" : "", texts(e, d.folds),
                        d.moments.empty() ? "" : " moments " + texts(e, d.moments));
  if (!e.reads.columns.empty()) text += fmt::format("columns: {}\n", texts(e, e.reads.columns));
  if (!e.reads.tensors.empty()) text += fmt::format("tensors: {}\n", texts(e, e.reads.tensors));
  if (e.rows_wait()) text += "row waits\n";
  return text;
}

TEST(General, ServesWhatElementsAloneDoNot) {
  for (const char* text : {"store acc as y : bf16", "store acc + t[b,n] as y : f16",
                           "store layer_norm(acc) as y : bf16", "store group_norm(acc, groups=4) as y : bf16"})
    EXPECT_EQ(describe(analysed(text)), "not general") << text;
}

TEST(General, ValuesOfRows) {
  EXPECT_EQ(describe(analysed("store acc * s[m] + bias[n] + r[m,n] as y : bf16")),
            "tiled: y\ncolumns: bias[n]\ntensors: r[m,n]\n");
  EXPECT_FALSE(analysed("store acc * s[m] as y : bf16").per_image());
  EXPECT_TRUE(analysed("store acc * s[m] + t[b] as y : bf16").per_image());
  EXPECT_TRUE(analysed("store acc * index(b) as y : bf16").per_image());
}

TEST(General, TheLastTwoResultsOfShortTypesGoByTma) {
  EXPECT_EQ(describe(analysed(
                "store acc as a : bf16\nstore -acc as b : f32\nstore 2 * acc as c : f16\nstore acc + 1 as d : bf16")),
            "tiled: d\ntiled: c\ndirect: b\ndirect: a\n");
}

TEST(General, NothingOfTheElementsNeedBeStored) {
  EXPECT_EQ(describe(analysed("store sum(relu(acc + bias[n])) as s : f32")),
            "reduced: s\n1 groups: sum(relu(acc + bias[n]), over=all)\ncolumns: bias[n]\n");
  EXPECT_EQ(describe(analysed("observe(acc)")), "");
}

TEST(General, ReductionsThatShareRowsAndChannelsAreOneDomain) {
  EXPECT_EQ(describe(analysed(
                "store acc as y : bf16\nstore max(acc, over=m) * s[n] as a : f32\n"
                "store variance(acc, over=m) as b : f32\nstore sum(acc, over=(m,n), per=b, groups=4) as c : f32")),
            "tiled: y\nreduced: c\nreduced: b\nreduced: a\n4 groups per image: sum(acc, over=(m,n), per=b, groups=4)\n"
            "0 groups: max(acc, over=m) moments variance(acc, over=m)\n");
}

TEST(General, EachLevelReadsTheOnesBefore) {
  EXPECT_EQ(describe(analysed("store softmax(acc, over=n) as y : bf16")),
            "tiled: y\nlevel: max(acc, over=n)\nlevel: sum(exp(acc - max(acc, over=n)), over=n)\nrow waits\n");
  EXPECT_EQ(describe(analysed("store rms_norm(acc, scale=g[n]) as y : bf16")),
            "tiled: y\nlevel: mean(square(acc), over=n)\ncolumns: g[n]\nrow waits\n");
  // A variance is taken in two passes
  EXPECT_EQ(
      describe(analysed("store acc as y : bf16\nstore variance(acc, over=n) as v : f32")),
      "tiled: y\nrow: v\nlevel: mean(acc, over=n)\nlevel: mean(square(acc - mean(acc, over=n)), over=n)\nrow waits\n");
}

// Stored alone, one level may span tiles
TEST(General, ReductionsOverManyChannels) {
  EXPECT_EQ(describe(analysed("store sum(acc, over=n) as s : f32\nstore max(acc, over=n) * w[m] as t : f32")),
            "row: t\nrow: s\nlevel: sum(acc, over=n), max(acc, over=n)\n");
}

TEST(General, GroupsOfARowsChannels) {
  EXPECT_EQ(
      describe(analysed("store softmax(acc, over=n, groups=4) as y : bf16\nstore max(acc, over=n, groups=4) as m : "
                        "f32")),
      "tiled: y\ngrouped: m\nlevel 0, groups: max(acc, over=n, groups=4)\n"
      "level 1, groups: sum(exp(acc - max(acc, over=n, groups=4)), over=n, groups=4)\n");
  EXPECT_EQ(describe(analysed("m = mean(acc, over=n, groups=4)\nstore acc * sum(m * m, over=n) as y : bf16")),
            "tiled: y\nlevel: sum_squares(m, over=n)\nlevel 0, groups: m = mean(acc, over=n, groups=4)\nrow waits\n");
}

TEST(General, AGroupIsInOneTile) {
  try {
    test::epilogue_of("store softmax(acc, over=n, groups=2) as y : bf16", test::conv_of(1, 32, 32, 64, 960, 1));
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), Says("2 groups of 480 channels; … 256 at most"));
  }
}

// What no mode of normalising serves
TEST(General, ElementsReadReductionsOverRowsAgain) {
  EXPECT_EQ(
      describe(analysed("store group_norm(acc, groups=2) * w[m] as y : bf16")),
      "tiled: y\nlevel 0, returned, 2 groups per image: moments variance(acc, over=(m,n), per=b, groups=2) with "
      "mean(acc, over=(m,n), per=b, groups=2)\n"
      "columns: mean(acc, over=(m,n), per=b, groups=2), rsqrt(variance(acc, over=(m,n), per=b, groups=2) + 1e-5)\n");
  EXPECT_EQ(describe(analysed("store acc - max(acc) as y : bf16")),
            "tiled: y\nlevel 0, returned, 1 groups: max(acc, over=all)\ncolumns: max(acc, over=all)\n");
  // One that reads another's result comes a level later, and what is stored too is taken once more
  EXPECT_EQ(describe(analysed("y = instance_norm(acc) * acc\nm = max(y, over=m, per=b)\nstore y - m as z : f32\n"
                              "store m as m : f32")),
            "direct: z\nreduced: m\nlevel 0, returned, 0 groups per image: moments variance(acc, over=m, per=b) with "
            "mean(acc, over=m, per=b)\nlevel 1, returned, 0 groups per image: m = max(y, over=m, per=b)\n"
            "0 groups per image: m = max(y, over=m, per=b)\n"
            "columns: mean(acc, over=m, per=b), variance(acc, over=m, per=b), rsqrt(variance(acc, over=m, per=b) + "
            "1e-5), m = max(y, over=m, per=b)\n");
  for (const char* text :
       {"store batch_norm(acc + t[b]) as y : bf16", "store layer_norm(acc) + instance_norm(acc) as y : bf16",
        "y = instance_norm(acc)\nstore instance_norm(y * y) as z : bf16",
        "store acc * rsqrt(variance(acc, over=m, per=b) + 1) as y : bf16",
        "h = acc + bias[n]\nstore instance_norm(h + r[m,n]) + h as y : bf16",
        "y = instance_norm(acc)\nstore y + acc as y : bf16\nstore relu(y) - acc as z : bf16",
        "store instance_norm(acc) as y : bf16\nstore variance(acc, over=m, per=b) as v : i32"})
    EXPECT_TRUE(analysed(text).general() && analysed(text).returns()) << text;
}

struct Refused {
  const char *text, *value, *reason;
};
class GeneralRefusal : public testing::TestWithParam<Refused> {};

TEST_P(GeneralRefusal, SaysWhichValueAndWhy) {
  const auto& [text, value, reason] = GetParam();
  try {
    analysed(text);
    FAIL() << "it was not refused";
  } catch (const Unsupported& e) {
    EXPECT_THAT(std::string(e.what()),
                Says(fmt::format("'{}' is not … GPU kernel: … {} … It runs … CPU device", value, reason)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plan, GeneralRefusal,
    testing::Values(
        Refused{"store acc as y : f32\nstore max(sum(acc, over=n, groups=2), over=m) as s : f32",
                "max(sum(acc, over=n, groups=2), over=m)", "a reduction … axes [m,g2]"},
        Refused{"store sum(acc, over=n, groups=2) * max(acc) as s : f32\nstore acc as y : f32",
                "sum(acc, over=n, groups=2) * max(acc, over=all)", "groups … channels … a reduction over rows"},
        Refused{"store variance(sum(acc, over=n), over=m) as s : f32", "variance(sum(acc, over=n), over=m)",
                "a variance … per row"},
        Refused{"store sum(cast(acc, i32)) as s : i32", "sum(cast(acc, i32), over=all)",
                "a reduction in i32: cast its input to f32"},
        Refused{"store sum(bias[n] * 2, over=n) as s : f32\nstore acc as y : f32", "sum(bias[n], over=n)",
                "a reduction … axes [n]"},
        Refused{"store acc as y : f32\nstore max(sum(acc, over=m), over=n) as s : f32", "max(sum(acc, over=m), over=n)",
                "a reduction … axes [n]"},
        Refused{"store acc as y : f32\nstore sum(acc, over=m) / sum(acc) as s : f32",
                "sum(acc, over=m) * reciprocal(sum(acc, over=all))",
                "combines reductions … different rows or channels"},
        Refused{"store acc as y : f32\nstore sum(acc) * bias[n] as s : f32", "bias[n] * sum(acc, over=all)",
                "their axes [], not [n]"},
        Refused{"store acc as y : f32\nstore bias[n] as b : f32", "bias[n]",
                "a store with axes [n] that reads no element"},
        Refused{"store acc as y : f64", "acc", "results are bf16, f16, f32, i32 or bool, and y is f64"},
        Refused{"observe(bias[n])\nstore acc as y : bf16", "observe(bias[n])", "its effect with axes [n]"}));

}  // namespace
}  // namespace unisono::plan
