// General epilogues: tiles of an image that wait for reductions over its rows, level after level, and add to reductions
// that are stored. A normalisation's backward pass is one level, of two sums for each group.
#include "cases.hpp"

namespace unisono::simulator {
namespace {

Kernel over_rows(Schedule schedule, int ctas, int images, int tiles_m, int tiles_n, int levels) {
  Kernel k = kernel_of(Mode::kOverRows, schedule, ctas, images, tiles_m);
  k.exchange = Exchange::kTags, k.tiles_n = tiles_n, k.levels = levels;
  return k;
}

TEST(OverRows, Exchange) {
  for (const int levels : {1, 2}) {
    expect_passes(on_one_stream(over_rows(kCooperative, 1, 2, 1, 1, levels)));
    expect_passes(on_one_stream(over_rows(kCooperative, 2, 2, 2, 1, levels)));
    expect_passes(on_one_stream(over_rows(kCooperative, 2, 2, 1, 2, levels)));
    expect_passes(on_one_stream(over_rows(kPingPong, 1, 2, 2, 1, levels)));
  }
  for (const int levels : {1, 2, 3}) {
    expect_passes(on_one_stream(over_rows(kCooperative, 3, 1, 3, 1, levels)));
    expect_passes(on_one_stream(over_rows(kCooperative, 4, 1, 2, 2, levels)));
    expect_passes(on_one_stream(over_rows(kPingPong, 2, 1, 2, 2, levels)));
  }
  expect_passes(on_one_stream(over_rows(kCooperative, 2, 1, 2, 1, 1), 3));  // replays
  expect_needs_two_epochs(over_rows(kCooperative, 2, 1, 2, 1, 1));
  Kernel k = over_rows(kPingPong, 1, 2, 1, 2, 1);
  k.k_blocks = 2;
  expect_passes(on_one_stream(k));
}

// A column's places are merged by segments
TEST(OverRows, Segments) {
  for (const int tiles : {2, 3, 4})
    for (const int together : {2, 3}) {
      Kernel k = over_rows(kCooperative, tiles, 1, tiles, 1, 1);
      k.segment_slots = together;
      expect_passes(on_one_stream(k));
    }
  Kernel k = over_rows(kPingPong, 2, 1, 4, 1, 1);
  k.segment_slots = 2;
  expect_passes(on_one_stream(k));
  k = over_rows(kCooperative, 2, 2, 2, 1, 1);
  k.segment_slots = 2;
  expect_passes(on_one_stream(k, 2));
  k = over_rows(kCooperative, 2, 1, 4, 1, 1);
  k.segment_slots = 2, k.in_memory = true;
  expect_passes(on_one_stream(k));
  k = over_rows(kCooperative, 4, 1, 4, 1, 1);
  k.segment_slots = 2;
  expect_catches(Bug::kSegmentUncounted, FailureKind::kStale, on_one_stream(k));
  expect_catches(Bug::kNoAcquire, FailureKind::kUnordered, on_one_stream(k));
  expect_catches(Bug::kNoRelease, FailureKind::kUnordered, on_one_stream(k));
}

TEST(OverRows, HalvesAndClusters) {
  Kernel k = over_rows(kCooperative, 2, 1, 2, 1, 1);
  k.warpgroups = 2;
  expect_passes(on_one_stream(k));
  k = over_rows(kCooperative, 4, 1, 2, 1, 1);
  k.cluster_n = 2;
  expect_passes(on_one_stream(k));
  k = over_rows(kCooperative, 4, 1, 1, 2, 1);
  k.cluster_m = 2;
  expect_passes(on_one_stream(k));
}

// Exact: an image's tiles are dealt to as many warpgroups, or a launch hangs
TEST(OverRows, TheCondition) {
  int legal = 0, illegal = 0;
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2})
      for (const int tiles : {1, 2, 3, 4})
        for (const int across : {1, 2}) {
          if (tiles * across > 4) continue;
          const Kernel k = over_rows(schedule, ctas, 1, tiles, across, 1);
          ++(rows_are_legal(k) ? legal : illegal);
          rows_are_legal(k) ? expect_passes(on_one_stream(k)) : expect_fails(on_one_stream(k), FailureKind::kDeadlock);
        }
  EXPECT_GE(legal, 8);
  EXPECT_GE(illegal, 8);
}

// An image of more tiles than are dealt at once: they wait in memory
TEST(OverRows, InMemory) {
  for (const int levels : {1, 2})
    for (const int tiles : {2, 3, 4}) {
      Kernel k = over_rows(kCooperative, 2, 2, tiles, 1, levels);
      k.in_memory = true;
      expect_passes(on_one_stream(k));
    }
  Kernel k = over_rows(kPingPong, 1, 1, 3, 2, 1);
  k.in_memory = true;
  expect_passes(on_one_stream(k));
  k = over_rows(kCooperative, 2, 1, 3, 1, 1);
  k.in_memory = true;
  expect_passes(on_one_stream(k, 2));
  expect_needs_two_epochs(k);
  expect_catches(Bug::kNoAcquire, FailureKind::kUnordered, on_one_stream(k));
}

TEST(OverRows, OnlyCooperatively) {
  Case c = on_one_stream(over_rows(kCooperative, 3, 1, 3, 1, 1));
  c.launches[0].cooperative = false;
  expect_passes(c);
  c.processors = 2;
  expect_fails(c, FailureKind::kDeadlock);
}

TEST(OverRows, SeededBugs) {
  const Case c = on_one_stream(over_rows(kCooperative, 4, 1, 2, 2, 1));
  expect_catches(Bug::kNextLevelFirst, FailureKind::kDeadlock, c);
  expect_catches(Bug::kNoRelease, FailureKind::kUnordered, c);
  expect_catches(Bug::kNoAcquire, FailureKind::kUnordered, c);
  expect_catches(Bug::kColumnForAll, FailureKind::kStale, c);
  expect_catches(Bug::kLevelsShareEntries, FailureKind::kStale, on_one_stream(over_rows(kCooperative, 2, 1, 2, 1, 2)));
  const Case twice = on_one_stream(over_rows(kCooperative, 2, 1, 2, 1, 1), 2);
  expect_catches(Bug::kTornEntry, FailureKind::kStale, twice);
  expect_catches(Bug::kEpochNotAdvanced, FailureKind::kStale, twice);
}

}  // namespace
}  // namespace unisono::simulator
