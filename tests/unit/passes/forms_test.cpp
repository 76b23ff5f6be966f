// What analyses of epilogues ask of a normalisation: its affine part, and softmax and RMS norm as normalisations of
// rows.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "passes/affine_form.hpp"
#include "passes/editor.hpp"
#include "passes/passes.hpp"
#include "passes/row_form.hpp"
#include "unisono/text.hpp"

namespace unisono::passes {
namespace {

Graph optimised(const std::string& text) { return run_pipeline(parse(text)); }

ValueId first(const Graph& g, Op op) {
  return static_cast<ValueId>(std::ranges::find(g.nodes, op, &Node::op) - g.nodes.begin());
}

std::string text_of(Graph g, ValueId value) {
  g.stores = {{.value = value, .dtype = DType::f32, .name = "v"}};
  return print(live_in_order(g));
}

AffineForm form_of(const Graph& g, bool of_rows = false) {
  Affine statistics;
  statistics.mean = first(g, Op::mean);
  statistics.input = g[*statistics.mean].inputs[0];
  return affine_form(g, statistics, of_rows);
}

TEST(AffineForm, GathersFactorsAndOneSum) {
  const AffineForm form = form_of(optimised("d = acc - mean(acc, over=m)\nstore relu(d * s[n] / t[n] - u[n]) as y"));
  ASSERT_TRUE(form.part.factor && form.part.shift);
  EXPECT_EQ(text_of(form.graph, *form.part.factor), "v = s[n] * reciprocal(t[n])\nstore v : f32\n");
  EXPECT_EQ(text_of(form.graph, *form.part.shift), "v = -u[n]\nstore v : f32\n");
  EXPECT_EQ(form.graph[form.part.input].op, Op::acc);
  EXPECT_EQ(form.graph[*form.part.mean].op, Op::mean);
  EXPECT_EQ(form.graph[first(form.graph, Op::relu)].inputs, std::vector{form.part.result});
  for (ValueId id = 0; id < form.graph.nodes.size(); ++id)
    for (const ValueId in : form.graph[id].inputs) EXPECT_LT(in, id);
}

TEST(AffineForm, EndsWhereElementsComeInOrADifferenceHasTwoReaders) {
  const AffineForm element = form_of(optimised("store (acc - mean(acc, over=m)) * s[n] + c[m,n] as y"));
  ASSERT_TRUE(element.part.factor);
  EXPECT_FALSE(element.part.shift);
  EXPECT_EQ(text_of(element.graph, *element.part.factor), "store s[n] as v : f32\n");
  EXPECT_EQ(element.graph[element.part.result].op, Op::mul);
  const AffineForm twice = form_of(optimised("d = acc - mean(acc, over=m)\nstore d * s[n] as y\nstore d * t[n] as z"));
  EXPECT_FALSE(twice.part.factor);
  EXPECT_EQ(twice.graph[twice.part.result].op, Op::sub);
}

TEST(AffineForm, OfRowsTakesNoColumns) {
  const AffineForm form =
      form_of(optimised("d = acc - mean(acc, over=n)\nstore d * a[] * s[n] as y"), /*of_rows=*/true);
  ASSERT_TRUE(form.part.factor);
  EXPECT_EQ(text_of(form.graph, *form.part.factor), "store a[] as v : f32\n");
  EXPECT_FALSE(form_of(optimised("store (acc - mean(acc, over=n)) * s[n] as y"), true).part.factor);
}

TEST(RowForm, NamesItsStatistic) {
  const auto softmax = row_form(optimised("store softmax(acc, over=n) as y"));
  ASSERT_TRUE(softmax);
  EXPECT_EQ(softmax->graph[*softmax->part.maximum].op, Op::reduce_max);
  EXPECT_EQ(softmax->graph[*softmax->part.sum].op, Op::sum);
  EXPECT_EQ(softmax->part.result, softmax->graph.stores[0].value);
  const auto squares = row_form(optimised("store rms_norm(acc) as y"));
  ASSERT_TRUE(squares);
  EXPECT_EQ(squares->graph[*squares->part.mean_square].op, Op::mean);
  EXPECT_EQ(squares->part.result, squares->part.input);
  EXPECT_EQ(squares->first, squares->graph.stores[0].value);
  EXPECT_FALSE(row_form(optimised("store layer_norm(acc) as y")));
  EXPECT_FALSE(row_form(optimised("store softmax(acc, over=n, groups=4) as y")));
}

}  // namespace
}  // namespace unisono::passes
