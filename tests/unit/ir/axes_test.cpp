#include <gtest/gtest.h>

#include "unisono/graph.hpp"

namespace unisono {
namespace {

constexpr Axes groups(RowAxis row, int count) { return {row, ColAxis::g, count}; }

const std::vector<Axes>& all() {
  static const std::vector<Axes> axes = [] {
    std::vector<Axes> v;
    for (const auto row : {RowAxis::none, RowAxis::b, RowAxis::m}) {
      v.push_back({row, ColAxis::none});
      v.push_back({row, ColAxis::n});
      v.push_back(groups(row, 4));
      v.push_back(groups(row, 8));
    }
    return v;
  }();
  return axes;
}

TEST(Axes, JoinIsALeastUpperBound) {
  for (const Axes& x : all())
    for (const Axes& y : all()) {
      const Axes j = join(x, y);
      EXPECT_EQ(j, join(y, x));
      EXPECT_TRUE(broadcasts_to(x, j)) << to_string(x) << " " << to_string(y);
      EXPECT_TRUE(broadcasts_to(j, axes::mn));
      for (const Axes& z : all()) {
        EXPECT_EQ(join(join(x, y), z), join(x, join(y, z)));
        if (broadcasts_to(x, z) && broadcasts_to(y, z)) {
          EXPECT_TRUE(broadcasts_to(j, z));
        }
      }
    }
}

TEST(Axes, GroupCountIsZeroWithoutGroups) {
  for (const Axes& x : all())
    for (const Axes& y : all())
      if (const Axes j = join(x, y); j.col != ColAxis::g) {
        EXPECT_EQ(j.groups, 0);
      }
}

TEST(Axes, Broadcasts) {
  EXPECT_TRUE(broadcasts_to(axes::b, axes::m));
  EXPECT_FALSE(broadcasts_to(axes::m, axes::b));
  EXPECT_TRUE(broadcasts_to(groups(RowAxis::b, 4), axes::bn));
  EXPECT_FALSE(broadcasts_to(axes::bn, groups(RowAxis::b, 4)));
  EXPECT_FALSE(broadcasts_to(groups(RowAxis::b, 4), groups(RowAxis::b, 8)));
  EXPECT_FALSE(broadcasts_to(axes::n, axes::m));
}

TEST(Axes, Spelling) {
  EXPECT_EQ(to_string(axes::scalar), "[]");
  EXPECT_EQ(to_string(axes::m), "[m]");
  EXPECT_EQ(to_string(axes::n), "[n]");
  EXPECT_EQ(to_string(axes::bn), "[b,n]");
  EXPECT_EQ(to_string(groups(RowAxis::none, 32)), "[g32]");
  EXPECT_EQ(to_string(groups(RowAxis::m, 32)), "[m,g32]");
}

TEST(Axes, OfReductions) {
  EXPECT_EQ(reduced_axes({.rows = true}), axes::n);
  EXPECT_EQ(reduced_axes({.rows = true, .per_image = true}), axes::bn);
  EXPECT_EQ(reduced_axes({.cols = true}), axes::m);
  EXPECT_EQ(reduced_axes({.cols = true, .groups = 4}), groups(RowAxis::m, 4));
  EXPECT_EQ(reduced_axes({.rows = true, .cols = true}), axes::scalar);
  EXPECT_EQ(reduced_axes({.rows = true, .cols = true, .per_image = true}), axes::b);
  EXPECT_EQ(reduced_axes({.rows = true, .cols = true, .per_image = true, .groups = 4}), groups(RowAxis::b, 4));
}

}  // namespace
}  // namespace unisono
