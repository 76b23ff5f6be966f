#include "figure/layered.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "unisono/error.hpp"

namespace unisono::figure {
namespace {

void expect_sound(const LayeredGraph& graph, const LayeredLayout& layout) {
  ASSERT_EQ(layout.nodes.size(), graph.nodes.size());
  ASSERT_EQ(layout.edges.size(), graph.edges.size());
  for (std::size_t i = 0; i < layout.nodes.size(); ++i) {
    const Rect& a = layout.nodes[i];
    EXPECT_GE(a.x, -1e-6);
    EXPECT_GE(a.y, -1e-6);
    EXPECT_LE(a.right(), layout.width + 1e-6);
    EXPECT_LE(a.bottom(), layout.height + 1e-6);
    for (std::size_t j = 0; j < i; ++j) {
      const Rect& b = layout.nodes[j];
      EXPECT_FALSE(a.x < b.right() - 1e-6 && b.x < a.right() - 1e-6 && a.y < b.bottom() && b.y < a.bottom())
          << "boxes " << i << " and " << j;
    }
  }
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const auto& points = layout.edges[e];
    ASSERT_GE(points.size(), 2u);
    EXPECT_NEAR(points.front().y, layout.nodes[graph.edges[e].from].bottom(), 1e-9);
    EXPECT_NEAR(points.front().x, layout.nodes[graph.edges[e].from].centre().x, 1e-9);
    EXPECT_NEAR(points.back().y, layout.nodes[graph.edges[e].to].y, 1e-9);
    EXPECT_NEAR(points.back().x, layout.nodes[graph.edges[e].to].centre().x, 1e-9);
    for (std::size_t i = 1; i < points.size(); ++i) EXPECT_GE(points[i].y, points[i - 1].y) << "an edge goes up";
  }
}

TEST(Layered, EmptyAndSingle) {
  EXPECT_TRUE(lay_out({}).nodes.empty());
  const LayeredLayout one = lay_out({.nodes = {{40, 20}}, .edges = {}});
  EXPECT_EQ(one.width, 40);
  EXPECT_EQ(one.height, 20);
}

TEST(Layered, ChainIsStraight) {
  const LayeredGraph chain{.nodes = {{40, 20}, {90, 20}, {10, 30}}, .edges = {{0, 1}, {1, 2}}};
  const LayeredLayout layout = lay_out(chain);
  expect_sound(chain, layout);
  for (const Rect& node : layout.nodes) EXPECT_NEAR(node.centre().x, layout.nodes[0].centre().x, 1e-6);
}

TEST(Layered, LeafStandsAboveItsUser) {
  // 0 → 1 → 2 → 3, and a leaf 4 that only 5 uses, which 3 feeds too
  const LayeredGraph graph{.nodes = std::vector<LayeredGraph::Size>(6, {20, 10}),
                           .edges = {{0, 1}, {1, 2}, {2, 3}, {3, 5}, {4, 5}}};
  const LayeredLayout layout = lay_out(graph);
  expect_sound(graph, layout);
  EXPECT_DOUBLE_EQ(layout.nodes[4].y, layout.nodes[3].y);
}

TEST(Layered, CrossingsAreRemoved) {
  // two pairs that cross in the order given
  const LayeredGraph graph{.nodes = std::vector<LayeredGraph::Size>(4, {20, 10}), .edges = {{0, 3}, {1, 2}}};
  const LayeredLayout layout = lay_out(graph);
  EXPECT_GT((layout.nodes[0].x - layout.nodes[1].x) * (layout.nodes[3].x - layout.nodes[2].x), 0);
}

TEST(Layered, RandomGraphsAreSound) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    LayeredGraph graph;
    const std::size_t count = 2 + random() % 30;
    for (std::size_t i = 0; i < count; ++i) {
      graph.nodes.push_back({static_cast<double>(10 + random() % 100), static_cast<double>(10 + random() % 40)});
      for (std::size_t j = 0; j < i; ++j) {
        if (random() % 8 == 0) graph.edges.push_back({j, i});
      }
    }
    expect_sound(graph, lay_out(graph));
  }
}

TEST(Layered, EdgesMustLeadDown) {
  EXPECT_THROW(lay_out({.nodes = {{1, 1}, {1, 1}}, .edges = {{1, 0}}}), InternalError);
  EXPECT_THROW(lay_out({.nodes = {{1, 1}}, .edges = {{0, 1}}}), InternalError);
}

}  // namespace
}  // namespace unisono::figure
