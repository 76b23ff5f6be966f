// Where a topological visitor stands, and what is in it.

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "families/cutlass_evt/sm90_tree.hpp"
#include "unit/families/cutlass_evt/problems.hpp"

namespace unisono::families::cutlass_evt {
namespace {

// "plus(AccFetch, RowBroadcast bias)"; a topological visitor as "{0: …; 1(0): …}"
std::string text_of(const Visitors& v, const Tree& t) {
  std::string text;
  if (t.is_topological()) {
    for (std::size_t i = 0; i < t.items.size(); ++i) {
      const std::string reads = t.edges[i].empty() ? "" : fmt::format("({})", fmt::join(t.edges[i], ","));
      text += fmt::format("{}{}{}: {}", i == 0 ? "{" : "; ", i, reads, text_of(v, t.items[i]));
    }
    return text + "}";
  }
  text = label_of(v.list[t.visitor]);
  text = text.substr(0, text.find(" = "));
  for (const char* scope : {"cutlass::", "thread::"})
    if (text.starts_with(scope)) text = text.substr(std::string_view(scope).size());
  if (t.children.empty()) return text;
  text += "(";
  for (std::size_t i = 0; i < t.children.size(); ++i) text += (i == 0 ? "" : ", ") + text_of(v, t.children[i]);
  return text + ")";
}

std::string tree(const std::string& text) {
  const Visitors v = test::visitors(text, true).value();
  return text_of(v, tree_of(v));
}

TEST(Topology, IsATreeWhereEveryValueIsReadOnce) {
  EXPECT_EQ(tree("store relu(acc + bias[n]) as y : bf16"), "ReLu(plus(AccFetch, RowBroadcast bias))");
  EXPECT_EQ(tree("store acc as y : bf16"), "Identity(AccFetch)");
}

// What costs nothing to read twice makes no branch
TEST(Topology, FetchesTheAccumulatorTwice) {
  EXPECT_EQ(tree("store acc * sigmoid(acc * scale[]) as y : bf16"),
            "multiplies(AccFetch, Sigmoid(multiplies(AccFetch, ScalarBroadcast scale)))");
}

TEST(Topology, StandsAroundWhatIsBetweenBranchAndMerge) {
  EXPECT_EQ(tree("h = acc + bias[n]\nstore relu(h * mish(h)) as y : bf16"),
            "ReLu({0: plus(AccFetch, RowBroadcast bias); 1(0): Mish3; 2(0,1): multiplies})");
}

TEST(Topology, TakesSubtreesAsItems) {
  const std::string text =
      "operand c[m,n] : bf16\nh = acc + bias[n]\nstore h * sigmoid(h) + (c + shift[n]) * h as y : bf16";
  const std::string found = tree(text);
  EXPECT_NE(found.find("plus(SrcFetch c, RowBroadcast shift)"), found.npos) << found;
  EXPECT_EQ(found.find("{", 1), found.npos) << "one topological visitor: " << found;
}

// Two branches that meet at different places and share nothing have a visitor each
TEST(Topology, NestsWhatMeetsFurtherDown) {
  const std::string found = tree(
      "operand c[m,n] : bf16\nh = acc + bias[n]\ni = c * scale[n]\n"
      "store max(h * mish(h), i * softplus(i)) as y : bf16");
  EXPECT_EQ(std::ranges::count(found, '{'), 2) << found;
  EXPECT_TRUE(found.starts_with("maximum_with_nan_propagation({")) << found;
}

TEST(Topology, StoresOnTheWay) {
  EXPECT_EQ(tree("h = acc + bias[n]\nstore gelu(h) as y : bf16\nstore h : bf16"),
            "GELU(AuxStore h(plus(AccFetch, RowBroadcast bias)))");
  EXPECT_EQ(tree("h = acc + bias[n]\nstore h : bf16\nstore sum(h, over=m) as s : f32"),
            "RowReduction s(plus(AccFetch, RowBroadcast bias))");
}

// A result that D is not computed from is visited ahead of D
TEST(Topology, VisitsWhatLeadsNowhere) {
  const std::string found = tree("h = acc + bias[n]\nstore h : bf16\nstore sum(mish(h), over=m) as s : f32");
  EXPECT_TRUE(found.starts_with("{")) << found;
  EXPECT_TRUE(found.ends_with(": Identity}")) << found;
  EXPECT_NE(found.find("RowReduction s"), found.npos) << found;
}

TEST(Topology, MultipliesScalarsInOneBroadcast) {
  const Visitors v = test::visitors("store acc * (a[] * b[]) as y : bf16").value();
  ASSERT_EQ(v.list.size(), 3u);
  EXPECT_EQ(v.list[1].scalars.size(), 2u);
}

}  // namespace
}  // namespace unisono::families::cutlass_evt
