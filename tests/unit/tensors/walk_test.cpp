// Index spaces in as few axes as possible.

#include "tensors/walk.hpp"
#include "support/says.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace unisono::tensors {
namespace {

using testing::ElementsAre;

// The offsets of all indices in all tensors, in row-major order
std::vector<Extents> offsets_of(const Walk& walk) {
  std::vector<Extents> list;
  for (std::int64_t number = 0; number < element_count(walk.extents); ++number) {
    Extents offsets(walk.strides.size(), 0);
    std::int64_t rest = number;
    for (std::size_t i = walk.extents.size(); i-- > 0; rest /= walk.extents[i])
      for (std::size_t t = 0; t < offsets.size(); ++t) offsets[t] += rest % walk.extents[i] * walk.strides[t][i];
    list.push_back(std::move(offsets));
  }
  return list;
}

TEST(Collapse, DenseTensorsAreOneAxis) {
  const Extents shape{2, 3, 4, 5}, dense = row_major_strides(shape);
  const Walk walk = collapse({shape, {dense, dense}});
  EXPECT_THAT(walk.extents, ElementsAre(120));
  EXPECT_THAT(walk.strides, ElementsAre(ElementsAre(1), ElementsAre(1)));
}

TEST(Collapse, AxesOfOneElementGo) {
  const Walk walk = collapse({{1, 4, 1, 5, 1}, {{7, 10, 3, 1, 9}}});
  EXPECT_THAT(walk.extents, ElementsAre(4, 5));
  EXPECT_THAT(walk.strides, ElementsAre(ElementsAre(10, 1)));
}

TEST(Collapse, AScalarHasAnAxis) {
  for (const Extents& shape : {Extents{}, Extents{1, 1}}) {
    const Walk walk = collapse({shape, {Extents(shape.size(), 3), Extents(shape.size(), 0)}});
    EXPECT_THAT(walk.extents, ElementsAre(1));
    EXPECT_THAT(walk.strides, ElementsAre(ElementsAre(0), ElementsAre(0)));
  }
}

TEST(Collapse, WhatOneTensorRepeatsStaysApart) {
  const Walk walk = collapse({{6, 4, 5}, {{20, 5, 1}, {0, 5, 1}, {1, 0, 0}}});
  EXPECT_THAT(walk.extents, ElementsAre(6, 20));
  EXPECT_THAT(walk.strides, ElementsAre(ElementsAre(20, 1), ElementsAre(0, 1), ElementsAre(1, 0)));
}

// Channels lie innermost; the other axes run on
TEST(Collapse, AxesAreOrderedByATensorsStrides) {
  const Walk walk = collapse({{2, 24, 3, 5}, {{360, 15, 5, 1}, {480, 1, 160, 32}}}, {.order_of = 1});
  EXPECT_THAT(walk.extents, ElementsAre(2, 15, 24));
  EXPECT_THAT(walk.strides, ElementsAre(ElementsAre(360, 1, 15), ElementsAre(480, 32, 1)));
}

TEST(Collapse, KeptAxesStayAndAreFound) {
  std::vector<std::size_t> from;
  const Walk walk = collapse({{2, 1, 3, 4}, {{12, 12, 4, 1}}}, {.axes = {false, true, false, true}}, &from);
  EXPECT_THAT(walk.extents, ElementsAre(2, 1, 3, 4));
  EXPECT_THAT(from, ElementsAre(0, 1, 2, 3));
  const Walk joined = collapse({{2, 1, 3, 4}, {{12, 12, 4, 1}}}, {}, &from);
  EXPECT_THAT(joined.extents, ElementsAre(24));
  EXPECT_THAT(from, ElementsAre(3));
}

TEST(Collapse, EmptySpacesStayEmpty) { EXPECT_EQ(element_count(collapse({{3, 0, 4}, {{0, 4, 1}}}).extents), 0); }

TEST(Collapse, WalksOverTheSameElements) {
  std::mt19937 random(5);
  for (int time = 0; time < 200; ++time) {
    Walk walk{Extents(random() % 6), {}};
    for (auto& e : walk.extents) e = 1 + static_cast<std::int64_t>(random() % 4);
    for (int t = 0; t < 3; ++t) {
      walk.strides.push_back(row_major_strides(walk.extents));
      for (auto& s : walk.strides.back())
        if (random() % 4 == 0) s = static_cast<std::int64_t>(random() % 50);
    }
    EXPECT_EQ(offsets_of(walk), offsets_of(collapse(walk))) << time;
    auto sorted = offsets_of(collapse(walk, {.order_of = time % 3})), given = offsets_of(walk);
    std::sort(sorted.begin(), sorted.end()), std::sort(given.begin(), given.end());
    EXPECT_EQ(given, sorted) << time;
  }
}

TEST(IndexSpace, NumbersAreDividedByMultiplication) {
  const IndexSpace space = index_space({7, 1000, 3}).value();
  EXPECT_EQ(space.axes, 3u);
  EXPECT_EQ(space.count, 21000u);
  for (const u64 x : {u64{0}, u64{999}, u64{1000}, u64{20999}})
    EXPECT_EQ(x * space.by[1].factor >> space.by[1].shift, x / 1000);
}

TEST(IndexSpace, RefusesWhatKernelsCannotCount) {
  EXPECT_THAT(index_space(Extents(9, 2)).refusal().text(), Says("9 axes … joined"));
  EXPECT_THAT(index_space({1 << 16, 1 << 15}).refusal().text(), testing::HasSubstr("2147483648 elements"));
  EXPECT_TRUE(index_space({1 << 15, 1 << 15, 1}));
  EXPECT_EQ(index_space({3, 0})->count, 0u);
}

TEST(Words, GrowAsFarAsAllAgrees) {
  const auto together = [](const Walk& walk, WordRule rule) {
    rule.moved = {0, 1};
    return elements_of_word(walk, rule);
  };
  const Walk rows{{6, 24}, {{32, 1}, {24, 1}}};
  EXPECT_EQ(together(rows, {.element_bytes = 2, .alignment = 16}), 8);
  EXPECT_EQ(together(rows, {.element_bytes = 1, .alignment = 16}), 8);  // of 24 and 32
  EXPECT_EQ(together(rows, {.element_bytes = 4, .alignment = 16}), 4);
  EXPECT_EQ(together(rows, {.element_bytes = 8, .alignment = 256}), 2);
  EXPECT_EQ(together(rows, {.element_bytes = 2, .alignment = 4}), 2);
  EXPECT_EQ(together(rows, {.element_bytes = 2, .alignment = 1}), 1);
  EXPECT_EQ(together(rows, {.starts = {4, 0}, .element_bytes = 2, .alignment = 16}), 4);
  EXPECT_EQ(together({{6, 24}, {{32, 1}, {25, 1}}}, {.element_bytes = 2, .alignment = 16}), 1);
  EXPECT_EQ(together({{6, 24}, {{32, 2}, {24, 1}}}, {.element_bytes = 2, .alignment = 16}), 1);
  // a third tensor, which is read by element, may not move along the innermost axis
  EXPECT_EQ(together({{6, 24}, {{32, 1}, {24, 1}, {1, 0}}}, {.element_bytes = 2, .alignment = 16}), 8);
  EXPECT_EQ(together({{6, 24}, {{32, 1}, {24, 1}, {1, 1}}}, {.element_bytes = 2, .alignment = 16}), 1);
}

TEST(Words, CountInsteadOfElements) {
  Walk walk{{6, 24}, {{32, 1}, {24, 1}, {1, 0}}};
  count_in_words(walk, {.moved = {0, 1}, .element_bytes = 2, .alignment = 16}, 8);
  EXPECT_THAT(walk.extents, ElementsAre(6, 3));
  EXPECT_THAT(walk.strides, ElementsAre(ElementsAre(4, 1), ElementsAre(3, 1), ElementsAre(1, 0)));
}

}  // namespace
}  // namespace unisono::tensors
