#include "command/explain_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "passes/passes.hpp"
#include "unisono/text.hpp"

namespace unisono::command {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char* block =
    "h = acc + bias[n]\n"
    "y = mish(group_norm(h, groups=4))\n"
    "store y : bf16\n"
    "store h : f32\n";

TEST(ExplainGraph, EveryPassIsLoggedAndSaysWhetherItChangedAnything) {
  const GraphExplanation e = explain_graph(parse(block));
  ASSERT_EQ(e.passes.size(), passes::pipeline().size());
  std::string before = e.written;
  int changes = 0;
  for (std::size_t i = 0; i < e.passes.size(); ++i) {
    EXPECT_EQ(e.passes[i].pass, passes::pipeline()[i].name);
    EXPECT_EQ(e.passes[i].changed, e.passes[i].text != before) << e.passes[i].pass;
    changes += e.passes[i].changed ? 1 : 0;
    before = e.passes[i].text;
  }
  EXPECT_GT(changes, 0);
  EXPECT_EQ(e.result_text, before);
  EXPECT_THAT(to_text(e), HasSubstr("(unchanged)"));
}

TEST(ExplainGraph, StagesHoldEveryValueAndStore) {
  const GraphExplanation e = explain_graph(parse(block));
  ASSERT_EQ(e.stages.size(), 2u);
  EXPECT_THAT(e.stages[0].values, Contains("h = acc + bias[n]"));
  EXPECT_THAT(e.stages[0].stores, ElementsAre("h : f32"));
  EXPECT_THAT(e.stages[0].kept, ElementsAre("h"));
  EXPECT_EQ(e.stages[0].reductions.size(), 2u);  // mean and variance
  EXPECT_THAT(e.stages[1].stores, ElementsAre("y : bf16"));
  EXPECT_THAT(e.stages[1].kept, IsEmpty());
}

// Values that the passes find to be one may have other stores than its own
TEST(ExplainGraph, FormsStandWithTheStoreOfTheirValue) {
  const GraphExplanation e =
      explain_graph(parse("y = relu(acc)\nstore relu(acc) as z : f32\nstore y : bf16\n"
                          "store upsample_2x2(y) as e : bf16\n"));
  ASSERT_EQ(e.stages.size(), 1u);
  EXPECT_THAT(e.stages[0].stores, ElementsAre("z : f32", "y : bf16", "e = upsample_2x2 : bf16"));
  EXPECT_THAT(e.written, HasSubstr("store upsample_2x2(y) as e : bf16"));
}

TEST(ExplainGraph, UniformValuesComeFirst) {
  const GraphExplanation e = explain_graph(parse("store acc * exp(s[]) : f32"));
  ASSERT_EQ(e.once.size(), 1u);
  EXPECT_THAT(e.once[0], HasSubstr("exp(s[])"));
  EXPECT_THAT(to_text(e), HasSubstr("once, before all tiles"));
}

TEST(ExplainGraph, JsonHasTheSame) {
  const GraphExplanation e = explain_graph(parse(block));
  const auto json = nlohmann::json::parse(to_json(e));
  EXPECT_EQ(json.at("kind"), "epilogue");
  EXPECT_EQ(json.at("text"), e.written);
  EXPECT_EQ(json.at("passes").size(), e.passes.size());
  EXPECT_EQ(json.at("stages").size(), 2u);
  EXPECT_EQ(json.at("stages")[1].at("stores")[0], "y : bf16");
}

}  // namespace
}  // namespace unisono::command
