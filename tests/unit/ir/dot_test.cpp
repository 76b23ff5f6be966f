#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "unisono/builder.hpp"
#include "unisono/text.hpp"
#include "wild_graph.hpp"

namespace unisono {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string dot(const std::string& text) { return to_dot(parse(text, test::wild_functions()), "a \"title\""); }

TEST(Dot, ShowsEveryKindOfNode) {
  const std::string s =
      dot("operand alpha : f16 = 0.5\n"
          "h = acc * alpha + bias[n]\n"
          "probe(h)\n"
          "y = cast(group_norm(h, groups=32, scale=gamma[n]), bf16)\n"
          "store y : bf16\n"
          "store sum(h, over=m) : f32\n");
  EXPECT_THAT(s, HasSubstr("digraph \"a \\\"title\\\"\" {"));
  EXPECT_THAT(s, HasSubstr("label=\"alpha : f16 = 0.5\""));
  EXPECT_THAT(s, HasSubstr("label=\"h = +\""));
  EXPECT_THAT(s, HasSubstr("label=\"group_norm\\ngroups=32\""));
  EXPECT_THAT(s, HasSubstr("label=\"y = cast bf16\""));
  EXPECT_THAT(s, HasSubstr("label=\"sum\\nover=m\""));
  EXPECT_THAT(s, HasSubstr("label=\"probe\""));
  EXPECT_THAT(s, HasSubstr("label=\"store y : bf16\""));
  EXPECT_THAT(s, HasSubstr("[label=\"scale\"]"));
  EXPECT_THAT(s, HasSubstr("label=\"bias[n]\""));
  EXPECT_THAT(s, HasSubstr("[label=\"[m,n]\"]"));
  EXPECT_THAT(s, HasSubstr("label=\"[m,n] bf16\""));
}

TEST(Dot, ConstantsStandBesideEachUse) {
  const std::string s = dot("store acc + 7.5 as x\nstore acc * 7.5 as y");
  const auto first = s.find("label=\"7.5\"");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(s.find("label=\"7.5\"", first + 1), std::string::npos);
}

// Balanced quotes and braces, every edge between nodes that are drawn
TEST(Dot, IsWellFormedForRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::string s = to_dot(test::wild_graph(seed));
    ASSERT_EQ(std::count(s.begin(), s.end(), '"') % 2, 0);
    for (std::size_t at = s.find(" -> "); at != std::string::npos; at = s.find(" -> ", at + 1)) {
      const auto begin = s.rfind(' ', at - 1) + 1;
      const auto end = s.find(' ', at + 4);
      for (const auto& key : {s.substr(begin, at - begin), s.substr(at + 4, end - at - 4)})
        ASSERT_THAT(s, HasSubstr("\n  " + key + " [label=")) << "seed " << seed;
    }
  }
}

TEST(Dot, NamesAreEscaped) {
  Graph g = parse("h = exp(acc)\nstore h");
  g.nodes[g.stores[0].value].name = "a\"b\\c\nd";
  EXPECT_THAT(to_dot(g), HasSubstr("label=\"a\\\"b\\\\c\\nd = exp\""));
}

}  // namespace
}  // namespace unisono
