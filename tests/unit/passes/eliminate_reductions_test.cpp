#include "passes/eliminate_reductions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "passes/common_subexpressions.hpp"
#include "rewriting.hpp"
#include "unisono/builder.hpp"

namespace unisono::passes {
namespace {

const std::vector<Rewrite> row_rewrites{
    {"sum(acc * bias[n], over=m)", "sum(acc, over=m) * bias[n]"},
    {"mean(acc * 0.5, over=n)", "mean(acc, over=n) * 0.5"},
    {"sum(acc / bias[n], over=m)", "sum(acc, over=m) / bias[n]"},
    {"mean(acc / 3)", "mean(acc) / 3"},
    {"sum(-acc, over=n)", "-sum(acc, over=n)"},
    {"mean(-acc, over=n)", "-mean(acc, over=n)"},
    {"max(-acc, over=n)", "-min(acc, over=n)"},
    {"min(-acc, over=n)", "-max(acc, over=n)"},
    {"sum(square(acc), over=m)", "sum_squares(acc, over=m)"},
    {"mean(square(acc - mean(acc, over=n)), over=n)", "variance(acc, over=n)"},
    {"mean(square(acc)) - square(mean(acc))", "variance(acc)"},
};

TEST(EliminateReductions, Rows) {
  expect_rewrites(eliminate_reductions, row_rewrites);
  expect_all_rows_fire(reduction_rows(), row_rewrites);
}

TEST(EliminateReductions, TakesOutWhatIsUniformAlongTheDomain) {
  expect_rewrites(eliminate_reductions, {
                                            {"sum(acc * t[b,n], over=m, per=b)", "sum(acc, over=m, per=b) * t[b,n]"},
                                            {"sum(acc * row[m], over=n)", "sum(acc, over=n) * row[m]"},
                                            {"sum(acc * max(acc, over=n, groups=4), over=n, groups=4)",
                                             "sum(acc, over=n, groups=4) * max(acc, over=n, groups=4)"},
                                        });
  expect_unchanged(
      eliminate_reductions,
      {
          "sum(acc * t[b,n], over=m)",  // t differs from image to image
          "sum(acc * bias[n], over=n)", "sum(acc * bias[n])", "sum(acc * row[m], over=m, per=b)",
          "sum(acc * mean(acc, over=n, groups=4), over=n, groups=2)",  // finer than the domain
          "sum(acc * mean(acc, over=n, groups=2), over=n, groups=4)",  // [m,g4] times [m,g2] would be [m,n]
          "t = acc * bias[n]\nstore sum(t, over=m) : f32\nstore t : f32",
          "sum(cast(acc, bf16) * cast(bias[n], bf16), over=m)",  // each product is rounded
          "sum(cast(acc * bias[n], bf16), over=m)", "sum(acc + bias[n], over=m)",
          "max(acc * bias[n], over=m)",  // a sign may turn it
      });
}

TEST(EliminateReductions, OfValuesThatDoNotVary) {
  expect_rewrites(eliminate_reductions,
                  {
                      {"sum(bias[n], over=m)", "bias[n] * cast(extent(m), f32)"},
                      {"sum(a[], over=all)", "a[] * (cast(extent(m), f32) * cast(extent(n), f32))"},
                      {"sum(t[b,n], over=m, per=b)", "t[b,n] * (cast(extent(h), f32) * cast(extent(w), f32))"},
                      {"sum(row[m], over=n)", "row[m] * cast(extent(n), f32)"},
                      {"sum(bias[n], over=all)", "sum(bias[n], over=n) * cast(extent(m), f32)"},
                      {"sum_squares(bias[n], over=m)", "square(bias[n]) * cast(extent(m), f32)"},
                      {"sum_squares(bias[n], over=all)", "sum_squares(bias[n], over=n) * cast(extent(m), f32)"},
                      {"mean(bias[n], over=m)", "bias[n]"},
                      {"mean(bias[n], over=all)", "mean(bias[n], over=n)"},
                      {"max(row[m], over=n)", "row[m]"},
                      {"min(t[b,n], over=m, per=b)", "t[b,n]"},
                      {"max(bias[n], over=all)", "max(bias[n], over=n)"},
                      {"variance(bias[n], over=all)", "variance(bias[n], over=n)"},
                      {"mean(mean(acc, over=n, groups=4), over=n, groups=4)", "mean(acc, over=n, groups=4)"},
                      {"sum(mean(acc, over=n, groups=4), over=n, groups=4)",
                       "mean(acc, over=n, groups=4) * (cast(extent(n), f32) * 0.25)"},
                  });
  expect_unchanged(eliminate_reductions, {
                                             "mean(t[b,n], over=m)",
                                             "mean(row[m], over=n, groups=4)",  // the output has axes [m,g4]
                                             "sum(bias[n], over=m, per=b)",     // … [b,n]
                                             "mean(mean(acc, over=n, groups=4), over=n, groups=2)",
                                             "mean(mean(acc, over=n, groups=4), over=n)",
                                             "variance(bias[n], over=m)",  // 0, or NaN
                                             "sum(index(n), over=m)",      // i32
                                             "mean(index(n), over=m)",     // becomes f32
                                         });
}

TEST(EliminateReductions, OneHot) {
  expect_rewrites(
      eliminate_reductions,
      {{"operand l[m] : i32\nstore sum(one_hot(l[m]), over=n) as y : f32",
        "operand l[m] : i32\nstore select((l[m] >= 0) & (l[m] < extent(n)), 1, 0) as y : f32"},
       {"sum(one_hot(l[m]), over=n)", "select((l[m] >= 0) & (l[m] < extent(n)) & (l[m] == cast(l[m], i32)), 1, 0)"}});
  expect_unchanged(eliminate_reductions,
                   {
                       "operand l[m] : i32\nstore sum(one_hot(l[m]) * acc, over=n) as y : f32",
                       "operand l[m] : i32\nstore sum(one_hot(l[m]), over=m) as y : f32",  // a histogram
                       "operand l[m] : i32\nstore sum(one_hot(l[m]), over=n, groups=2) as y : f32",
                       "operand l[m] : i32\nstore sum(one_hot(l[m]), over=all) as y : f32",
                   });
}

TEST(EliminateReductions, MeanByASumThatIsThere) {
  expect_rewrites(eliminate_reductions,
                  {{"store sum(acc, over=m) as s : f32\nstore mean(acc, over=m) as y : f32",
                    "s = sum(acc, over=m)\nstore s : f32\nstore s / cast(extent(m), f32) as y : f32"}});
  expect_unchanged(eliminate_reductions, {
                                             "store sum(acc, over=m) as s : f32\nstore mean(acc, over=n) as y : f32",
                                             "store sum(acc, over=m) as s : f32\nstore mean(c[m,n], over=m) as y : f32",
                                             // the statistics of a normalisation give the mean anyway
                                             "store sum(acc, over=m) as s : f32\nstore mean(acc, over=m) as y : "
                                             "f32\nstore variance(acc, over=m) as v : f32",
                                         });
}

// To ask all of a value's reductions for each of them would take minutes
TEST(EliminateReductions, ManyOfOneValue) {
  constexpr int count = 30'000;
  GraphBuilder g;
  const Value acc = g.acc();
  for (int i = 0; i < count; ++i) {
    const ReduceDomain domain{.cols = true, .groups = i + 2};
    g.store(sum(acc, domain), DType::f32, "sum" + std::to_string(i));
    g.store(mean(acc, domain), DType::f32, "mean" + std::to_string(i));
  }
  const Graph graph = eliminate_reductions(common_subexpressions(g.build()));
  const auto is = [](Op op) { return [op](const Node& x) { return x.op == op; }; };
  EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(), is(Op::sum)), count);
  EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(), is(Op::mean)), 0);
}

TEST(EliminateReductions, VarianceWhoseMeanIsReadElsewhere) {
  expect_rewrites(eliminate_reductions,
                  {{"mu = mean(acc, over=n)\nd = acc - mu\nstore d * rsqrt(mean(square(acc - mean(acc, over=n)), "
                    "over=n)) as y : f32",
                    "store (acc - mean(acc, over=n)) * rsqrt(variance(acc, over=n)) as y : f32"}});
  expect_unchanged(eliminate_reductions,
                   {
                       "mean(square(acc - mean(acc, over=m)), over=n)",
                       "mean(square(acc)) - square(mean(c[m,n]))",
                       "x = cast(acc, bf16)\nstore mean(square(x), over=n) - square(mean(x, over=n)) : f32",
                   });
}

// Every combination, against the definition
TEST(EliminateReductions, UniformAlongADomain) {
  // 2 rows in each of 2 images, 16 columns: constant on each index set?
  const auto group_of = [](const Axes& a, int m, int n) {
    const int row = a.row == RowAxis::m ? m : a.row == RowAxis::b ? m / 2 : 0;
    const int col = a.col == ColAxis::n ? n : a.col == ColAxis::g ? n * a.groups / 16 : 0;
    return row * 16 + col;
  };
  for (const RowAxis row : {RowAxis::none, RowAxis::b, RowAxis::m})
    for (const int groups : {0, 1, 2, 4, 8, 100}) {
      Axes a{row, groups == 0 ? ColAxis::none : groups == 100 ? ColAxis::n : ColAxis::g, 0};
      if (a.col == ColAxis::g) a.groups = groups;
      for (const bool rows : {false, true})
        for (const bool per_image : {false, true})
          for (const int d_groups : {0, 1, 2, 4, 8}) {
            const ReduceDomain d{rows, d_groups > 0, rows && per_image, std::max(1, d_groups)};
            if (!d.rows && !d.cols) continue;
            Axes result = reduced_axes(d);
            bool uniform = true;
            for (int i = 0; i < 64; ++i)
              for (int j = 0; j < 64; ++j)
                if (group_of(result, i / 16, i % 16) == group_of(result, j / 16, j % 16))
                  uniform &= group_of(a, i / 16, i % 16) == group_of(a, j / 16, j % 16);
            EXPECT_EQ(is_uniform_along(a, d), uniform) << to_string(a) << " " << to_string(result);
          }
    }
}

}  // namespace
}  // namespace unisono::passes
