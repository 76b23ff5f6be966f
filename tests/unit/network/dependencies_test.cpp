// Which launches wait for which: every hazard is ordered, nothing else is, and no edge says what others say.

#include "network/cuda/dependencies.hpp"

#include <gtest/gtest.h>

#include <bitset>
#include <ctime>

#include "support/random.hpp"

namespace unisono::network::gpu {
namespace {

constexpr Capacity of_an_h200{.sms = 132, .threads = 2048};

// More than half of the threads that the GPU holds, or nearly all of its SMs
bool fills(const Uses& u, const Capacity& c) {
  if (u.exclusive) return 8 * u.blocks > 7 * c.sms;
  return 2 * u.blocks * u.threads > c.sms * c.threads;
}

// Whether two launches, of which neither needs the other, should run beside each other: they fit on the GPU together
bool worthwhile(const Uses& a, const Uses& b, const Capacity& c) {
  if (a.exclusive && b.exclusive) return a.blocks + b.blocks <= c.sms;
  if (a.exclusive || b.exclusive) return !fills(a.exclusive ? a : b, c);
  return !(fills(a, c) && fills(b, c));
}

constexpr std::size_t memory_bytes = 256;
using Bytes = std::bitset<2 * memory_bytes>;  // of two spaces

Bytes bytes_of(const std::vector<Interval>& intervals) {
  Bytes all;
  for (const Interval& x : intervals)
    for (std::size_t row = 0; row < x.rows; ++row)
      for (std::size_t i = 0; i < x.width; ++i) all.set(x.space * memory_bytes + x.begin + row * x.pitch + i);
  return all;
}

struct Drawn {
  test::Random random;
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random.below(static_cast<int>(n))); }
  Interval interval() {
    Interval x{.space = static_cast<std::uint8_t>(below(2)), .width = below(24)};
    if (below(2) == 0) {
      x.begin = below(memory_bytes - x.width);
      return x;
    }
    x.pitch = below(2) == 0 ? 32 : 24;
    x.rows = 1 + below(6);
    x.begin = below(memory_bytes - (x.rows - 1) * x.pitch - x.width);
    return x;
  }
  std::vector<Interval> intervals() {
    std::vector<Interval> all;
    for (std::size_t i = below(3); i > 0; --i) all.push_back(interval());
    return all;
  }
  Uses uses() {
    return {.reads = intervals(),
            .writes = intervals(),
            .exchanges = below(3) == 0,
            .exclusive = below(2) == 0,
            .blocks = static_cast<std::int64_t>(1 + below(160)),
            .threads = static_cast<std::int64_t>(32 * (1 + below(12)))};
  }
};

// By launch: all that end before it begins
std::vector<std::vector<bool>> closure(const Order& after) {
  std::vector<std::vector<bool>> ahead;
  for (std::size_t i = 0; i < after.size(); ++i) {
    ahead.emplace_back(after.size(), false);
    for (const std::size_t j : after[i]) {
      EXPECT_LT(j, i);
      ahead[i][j] = true;
      for (std::size_t k = 0; k < j; ++k) ahead[i][k] = ahead[i][k] || ahead[j][k];
    }
  }
  return ahead;
}

TEST(Dependencies, OverlapIsNeverMissed) {
  Drawn random{test::Random(11)};
  int apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const Interval a = random.interval(), b = random.interval();
    const bool shared = (bytes_of({a}) & bytes_of({b})).any();
    EXPECT_TRUE(overlap(a, b) || !shared) << round;
    if (a.rows == 1 && b.rows == 1) {
      EXPECT_EQ(overlap(a, b), shared) << round;
    }
    apart += !overlap(a, b) && a.begin < b.end() && b.begin < a.end() && a.space == b.space ? 1 : 0;
  }
  EXPECT_GT(apart, 100) << "columns side by side";
}

TEST(Dependencies, ColumnsOfOneTensorAreApart) {
  const Interval left{.begin = 64, .width = 16, .rows = 10, .pitch = 48};
  const Interval right{.begin = 80, .width = 32, .rows = 10, .pitch = 48};
  EXPECT_FALSE(overlap(left, right));
  EXPECT_TRUE(overlap(left, {.begin = 64, .width = 480}));
  EXPECT_TRUE(overlap(left, {.begin = 64, .width = 17, .rows = 10, .pitch = 48})) << "one column in common";
  EXPECT_TRUE(overlap(left, {.begin = 80, .width = 32, .rows = 10, .pitch = 40})) << "other rows";
}

TEST(Dependencies, RandomLaunches) {
  const Capacity capacity = of_an_h200;
  std::size_t edges = 0, pairs = 0, beside = 0;
  for (int round = 0; round < 300; ++round) {
    Drawn random{test::Random(static_cast<std::uint64_t>(round))};
    std::vector<Uses> launches(1 + random.below(24));
    for (Uses& u : launches) u = random.uses();
    const Order after = dependencies(launches, capacity);
    ASSERT_EQ(after.size(), launches.size());
    const auto ahead = closure(after);
    Order asked(launches.size());
    for (std::size_t i = 0; i < launches.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const Uses &a = launches[j], &b = launches[i];
        const Bytes written = bytes_of(a.writes), touched = written | bytes_of(a.reads);
        const bool hazard =
            (written & (bytes_of(b.reads) | bytes_of(b.writes))).any() || (touched & bytes_of(b.writes)).any();
        EXPECT_TRUE(ahead[i][j] || !hazard) << "round " << round << ", " << j << " and " << i;
        EXPECT_TRUE(ahead[i][j] || !(a.exchanges && b.exchanges)) << "both exchange, round " << round;
        EXPECT_TRUE(ahead[i][j] || worthwhile(a, b, capacity)) << "round " << round;
        const auto any = [](const auto& x, const auto& y) {
          for (const Interval& p : x)
            for (const Interval& q : y)
              if (overlap(p, q)) return true;
          return false;
        };
        const bool touch = any(a.writes, b.reads) || any(a.reads, b.writes) || any(a.writes, b.writes);
        if (touch || (a.exchanges && b.exchanges) || !worthwhile(a, b, capacity)) asked[i].push_back(j);
        ++pairs, beside += ahead[i][j] ? 0 : 1;
      }
    EXPECT_EQ(ahead, closure(asked)) << "round " << round << ": no more than was asked for";
    for (std::size_t i = 0; i < after.size(); ++i)
      for (const std::size_t j : after[i]) {
        ++edges;
        for (const std::size_t k : after[i])
          EXPECT_FALSE(k > j && ahead[k][j]) << "an edge that another says, round " << round;
      }
  }
  EXPECT_GT(beside, 100u);
  EXPECT_GT(edges, 1000u);
  EXPECT_LT(edges, pairs / 2);
}

// Every pair compared: what dependencies() gives without
Order by_pairs(std::span<const Uses> launches, const Capacity& capacity) {
  const auto any = [](const std::vector<Interval>& x, const std::vector<Interval>& y) {
    for (const Interval& p : x)
      for (const Interval& q : y)
        if (overlap(p, q)) return true;
    return false;
  };
  Order after(launches.size());
  std::vector<std::vector<bool>> ahead(launches.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    ahead[i].assign(i, false);
    for (std::size_t j = i; j-- > 0;) {
      const Uses &first = launches[j], &second = launches[i];
      const bool touch =
          any(first.writes, second.reads) || any(first.reads, second.writes) || any(first.writes, second.writes);
      const bool apart = !touch && !(first.exchanges && second.exchanges);
      if (ahead[i][j] || (apart && worthwhile(first, second, capacity))) continue;
      after[i].insert(after[i].begin(), j);
      ahead[i][j] = true;
      for (std::size_t k = 0; k < j; ++k)
        if (ahead[j][k]) ahead[i][k] = true;
    }
  }
  return after;
}

// Launches as networks have them: few places that are used again and again, whole, in halves and by columns
Uses drawn_of_few(Drawn& random, std::size_t kinds) {
  const auto place = [&] {
    const std::size_t tensor = 64 * random.below(6);
    switch (random.below(5)) {
      case 0: return Interval{.begin = tensor + 32 * random.below(2), .width = 32};
      case 1: return Interval{.begin = tensor + 8 * random.below(2), .width = 8, .rows = 4, .pitch = 16};
      case 2: return Interval{.begin = tensor, .width = 16, .rows = 2 + random.below(2), .pitch = 24};
      case 3: return Interval{.space = 1, .begin = tensor, .width = 64 + 64 * random.below(3)};
      default: return Interval{.begin = tensor, .width = 64};
    }
  };
  Uses u{.reads = {place()}, .writes = {place()}, .blocks = 2};
  if (random.below(3) == 0) u.reads.push_back(place());
  u.exclusive = random.below(kinds) == 0;
  u.exchanges = u.exclusive && random.below(3) == 0;
  if (u.exclusive) u.blocks = static_cast<std::int64_t>(random.below(150));
  if (!u.exclusive && random.below(kinds) == 1) u.blocks = 2000, u.threads = 256;
  return u;
}

TEST(Dependencies, AsIfEveryPairWereCompared) {
  std::size_t edges = 0;
  for (int round = 0; round < 400; ++round) {
    Drawn random{test::Random(static_cast<std::uint64_t>(1000 + round))};
    std::vector<Uses> launches(1 + random.below(round % 10 == 0 ? 150 : 40));
    const std::size_t kinds = 2 + random.below(8);
    for (Uses& u : launches) u = round % 2 == 0 ? random.uses() : drawn_of_few(random, kinds);
    const Capacity capacity{.sms = static_cast<std::int64_t>(round % 3 == 0 ? 132 : 1 + random.below(20)),
                            .threads = 2048};
    const Order expected = by_pairs(launches, capacity);
    ASSERT_EQ(dependencies(launches, capacity), expected) << "round " << round;
    for (const auto& list : expected) edges += list.size();
  }
  EXPECT_GT(edges, 5000u);
}

// 20,000 launches of each kind; comparing the pairs took minutes
TEST(Dependencies, TimeGrowsWithTheLaunches) {
  constexpr std::size_t count = 20000;
  const std::clock_t started = std::clock();
  const Interval common{.begin = 0, .width = 64};
  const auto part = [](std::size_t i) { return Interval{.begin = 64 * (i + 1), .width = 64}; };
  std::vector<Uses> wide{{.writes = {common}}}, chain, branches;
  for (std::size_t i = 0; i < count; ++i) wide.push_back({.reads = {common}, .writes = {part(i)}});
  wide.push_back({.reads = {{.begin = 64, .width = 64 * count}}});
  for (std::size_t i = 0; i < count; ++i) chain.push_back({.reads = {part(i % 2)}, .writes = {part((i + 1) % 2)}});
  for (std::size_t i = 0; i < count; ++i)  // four beside each other, and what all read
    branches.push_back({.reads = {common, part(i % 4)}, .writes = {part(i % 4)}});
  const Order after_wide = dependencies(wide, of_an_h200);
  EXPECT_EQ(after_wide[count], std::vector<std::size_t>{0});
  EXPECT_EQ(after_wide[count + 1].size(), count);
  EXPECT_EQ(dependencies(chain, of_an_h200)[count - 1], std::vector<std::size_t>{count - 2});
  EXPECT_EQ(dependencies(branches, of_an_h200)[count - 1], std::vector<std::size_t>{count - 5});
  EXPECT_LT(static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC, 30);  // of processors, not of a clock
}

// Without memory in common
TEST(Dependencies, WhatRunsBesideWhat) {
  const Uses border{.blocks = 640, .threads = 256}, tiny{.blocks = 3, .threads = 256};
  const Uses small{.exclusive = true, .blocks = 40, .threads = 384};
  const Uses whole{.exclusive = true, .blocks = 132, .threads = 384};
  EXPECT_TRUE(worthwhile(small, small, of_an_h200));
  EXPECT_FALSE(worthwhile(small, whole, of_an_h200)) << "its blocks would wait for SMs";
  EXPECT_FALSE(worthwhile(whole, whole, of_an_h200));
  EXPECT_TRUE(worthwhile(border, small, of_an_h200));
  EXPECT_TRUE(worthwhile(border, tiny, of_an_h200));
  EXPECT_FALSE(worthwhile(border, border, of_an_h200));
  EXPECT_FALSE(worthwhile(tiny, whole, of_an_h200));
  Uses exchanging = small;
  exchanging.exchanges = true;
  const std::vector<Uses> three{exchanging, small, exchanging};
  EXPECT_EQ(dependencies(three, of_an_h200), (Order{{}, {}, {0}})) << "two that exchange are never beside each other";
}

// Two segments end at the same launch: the one between them is empty
TEST(Dependencies, WithinSegmentsNothingIsWaitedForAcrossACut) {
  const Order all{{}, {0}, {0, 1}, {1}, {2, 3}, {0}};
  EXPECT_EQ(within_segments(all, {}), all);
  EXPECT_EQ(within_segments(all, std::vector<std::size_t>{2, 2, 5}), (Order{{}, {0}, {}, {}, {2, 3}, {}}));
  EXPECT_EQ(within_segments(all, std::vector<std::size_t>{0, 6}), all);
}

}  // namespace
}  // namespace unisono::network::gpu
