#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "figure/graph_diagram.hpp"
#include "figure/svg.hpp"
#include "passes/passes.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::figure {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Every opened element is closed in order; attributes have no stray quotes.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)((?: [a-zA-Z:-]+=\"[^\"<]*\")*) ?(/?)>");
  std::size_t covered = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
    covered += 1;
    if ((*it)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), (*it)[2].str());
      open.pop_back();
    } else if ((*it)[4].length() == 0) {
      open.push_back((*it)[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(covered, static_cast<std::size_t>(std::count(svg.begin(), svg.end(), '<')))
      << "a '<' outside of an element";
}

TEST(Svg, TextIsEscaped) {
  EXPECT_EQ(xml_escaped("a<b & \"c\" > 'd'\n"), "a&lt;b &amp; &quot;c&quot; &gt; &apos;d&apos; ");
  Svg svg;
  svg.text({0, 0}, "x < y && z", 12, {});
  expect_well_formed(svg.finish(10, 10, "<&>"));
}

TEST(Svg, Colours) { EXPECT_EQ(to_hex({1, 160, 255}), "#01a0ff"); }

const char* block =
    "h = acc + bias[n]\n"
    "y = mish(group_norm(h, groups=4))\n"
    "store y : bf16\n"
    "store sum(h, over=m) : f32\n";

TEST(Diagram, ShowsEveryValueAndStore) {
  const BoxDiagram diagram = diagram_of(parse(block), nullptr, "as written");
  const std::string svg = to_svg(diagram);
  expect_well_formed(svg);
  for (const char* text :
       {"as written", "acc", "bias", "h = add", "group_norm", "groups=4", "y = mish", "store y : bf16", "over=m"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_TRUE(diagram.legend.empty());
}

TEST(Diagram, StagesHaveColoursOfTheirOwn) {
  const Graph graph = passes::run_pipeline(parse(block));
  const passes::Partition partition = passes::partition(graph);
  ASSERT_EQ(partition.stages.size(), 2u);
  const BoxDiagram diagram = diagram_of(graph, &partition, "stages");
  ASSERT_GE(diagram.legend.size(), 2u);
  int coloured = 0;
  for (const Box& box : diagram.boxes) {
    coloured += box.fill == pastel(0) || box.fill == pastel(1);
    if (box.lines[0] == "y = mish") {
      EXPECT_EQ(box.fill, pastel(1));
    } else if (box.lines[0] == "h = add") {
      EXPECT_EQ(box.fill, pastel(0));
    }
  }
  EXPECT_GE(coloured, 5);
}

TEST(Diagram, ConstantsStandWhereTheyAreUsed) {
  const std::string svg = to_svg(diagram_of(parse("store acc * 0.5 + index(n) : f32"), nullptr, "t"));
  EXPECT_THAT(svg, HasSubstr("mul(·, 0.5)"));
  EXPECT_THAT(svg, HasSubstr("index(n)"));
}

TEST(Diagram, StoreOfAConstant) {
  const BoxDiagram diagram = diagram_of(parse("store 2 : f32"), nullptr, "t");
  ASSERT_EQ(diagram.boxes.size(), 1u);
  EXPECT_EQ(diagram.boxes[0].lines.back(), "2");
}

TEST(Diagram, TooManyBoxesAreRefused) {
  BoxDiagram diagram{.title = "large"};
  diagram.boxes.assign(1001, Box{.lines = {"x"}});
  EXPECT_THROW(to_svg(diagram), UserError);
}

}  // namespace
}  // namespace unisono::figure
