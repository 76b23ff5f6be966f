// General epilogues: tiles of a row that wait for one another, level after level.
#include "cases.hpp"

namespace unisono::simulator {
namespace {

// Images of `tiles_m` rows of `tiles_n` tiles.
Kernel rows_of(Schedule schedule, int ctas, int images, int tiles_m, int tiles_n, int levels) {
  Kernel k = kernel_of(Mode::kRows, schedule, ctas, images, tiles_m);
  k.exchange = Exchange::kTags, k.tiles_n = tiles_n, k.levels = levels;
  return k;
}

TEST(Rows, Exchange) {
  for (const int levels : {1, 2, 3})
    for (const int across : {1, 2, 3}) expect_passes(on_one_stream(rows_of(kCooperative, 3, 1, 2, across, levels)));
  for (const int levels : {1, 2})
    for (const int across : {2, 3, 4}) expect_passes(on_one_stream(rows_of(kPingPong, 2, 1, 2, across, levels)));
  expect_passes(on_one_stream(rows_of(kCooperative, 2, 2, 1, 2, 2), 3));  // replays
  expect_needs_two_epochs(rows_of(kCooperative, 2, 1, 1, 2, 2));
  Kernel k = rows_of(kPingPong, 2, 1, 2, 3, 2);
  k.k_blocks = 2;
  expect_passes(on_one_stream(k));
}

TEST(Rows, HalvesAndClusters) {
  Kernel k = rows_of(kCooperative, 2, 1, 1, 2, 2);
  k.warpgroups = 2;
  expect_passes(on_one_stream(k));
  k = rows_of(kCooperative, 4, 1, 1, 2, 2);
  k.cluster_n = 2;
  expect_passes(on_one_stream(k));
  k = rows_of(kCooperative, 4, 1, 2, 2, 1);
  k.cluster_m = 2;
  expect_passes(on_one_stream(k));
}

// Exact: a row's tiles are dealt to as many warpgroups, or a launch hangs
TEST(Rows, TheCondition) {
  int legal = 0, illegal = 0;
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2, 3})
      for (const int across : {1, 2, 3, 4, 5})
        for (const int levels : {1, 2}) {
          if (schedule == kPingPong && ctas * across > 8) continue;
          const Kernel k = rows_of(schedule, ctas, 1, 2, across, levels);
          const bool is_legal = rows_are_legal(k);
          ++(is_legal ? legal : illegal);
          is_legal ? expect_passes(on_one_stream(k)) : expect_fails(on_one_stream(k), FailureKind::kDeadlock);
        }
  EXPECT_GT(legal, 10);
  EXPECT_GT(illegal, 10);
}

// A row of more tiles than are dealt at once: they wait in memory
TEST(Rows, InMemory) {
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2, 3})
      for (const int across : {2, 3, 4, 5})
        for (const int levels : {1, 2}) {
          if (ctas * across * levels > (schedule == kPingPong ? 12 : 20)) continue;
          Kernel k = rows_of(schedule, ctas, 1, 2, across, levels);
          k.in_memory = true;
          expect_passes(on_one_stream(k));
        }
  Kernel k = rows_of(kCooperative, 2, 1, 1, 3, 2);
  k.in_memory = true;
  expect_passes(on_one_stream(k, 2));
  expect_needs_two_epochs(k);
  expect_catches(Bug::kSharesWithTheirTile, FailureKind::kDeadlock, on_one_stream(k));
  expect_catches(Bug::kEpochNotAdvanced, FailureKind::kStale, on_one_stream(k, 2));
}

// A tile waits for its row behind the next tile's main loop, which has published: so a warpgroup may be dealt two tiles
// of a row, not three.
TEST(Rows, Deferred) {
  const auto deferred = [](Schedule schedule, int ctas, int across) {
    Kernel k = rows_of(schedule, ctas, 1, 2, across, 1);
    k.deferred = true;
    return k;
  };
  int passes = 0, fails = 0;
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2, 3})
      for (const int across : {1, 2, 3, 4, 5}) {
        if (schedule == kPingPong && ctas * across > 8) continue;
        const Kernel k = deferred(schedule, ctas, across);
        const bool passing = across <= 2 * k.clusters() * k.consumer_groups();
        ++(passing ? passes : fails);
        passing ? expect_passes(on_one_stream(k)) : expect_fails(on_one_stream(k), FailureKind::kDeadlock);
      }
  EXPECT_GT(passes, 10);
  EXPECT_GT(fails, 3);
  Kernel k = deferred(kPingPong, 2, 3);
  k.k_blocks = 2;
  expect_passes(on_one_stream(k));
  k = deferred(kCooperative, 4, 2);
  k.cluster_n = 2;
  expect_passes(on_one_stream(k));
  expect_passes(on_one_stream(deferred(kCooperative, 2, 2), 2));  // replays
  expect_needs_two_epochs(deferred(kCooperative, 2, 2));
  expect_catches(Bug::kEntryWithItsResult, FailureKind::kDeadlock, on_one_stream(deferred(kCooperative, 2, 4)));
  expect_catches(Bug::kEpochNotAdvanced, FailureKind::kStale, on_one_stream(deferred(kCooperative, 2, 2), 2));
}

TEST(Rows, OnlyCooperatively) {
  Case c = on_one_stream(rows_of(kCooperative, 3, 1, 1, 3, 1));
  c.launches[0].cooperative = false;
  expect_passes(c);
  c.processors = 2;
  expect_fails(c, FailureKind::kDeadlock);
}

TEST(Rows, SeededBugs) {
  const Case c = on_one_stream(rows_of(kCooperative, 3, 1, 1, 3, 2));
  expect_catches(Bug::kNextLevelFirst, FailureKind::kDeadlock, c);
  expect_catches(Bug::kLevelsShareEntries, FailureKind::kStale, c);
  expect_catches(Bug::kTornEntry, FailureKind::kStale, c);
  expect_catches(Bug::kEpochNotAdvanced, FailureKind::kStale, on_one_stream(rows_of(kCooperative, 2, 1, 1, 2, 2), 2));
}

TEST(Rows, AWorkspaceForOneLaunchAtATime) {
  Case shared = on_two_streams(rows_of(kCooperative, 2, 1, 1, 2, 1), 4);
  expect_passes(shared);
  shared.launches[1].workspace = 0;
  expect_fails(shared, FailureKind::kStale, Reduction::kPrivate);
}

}  // namespace
}  // namespace unisono::simulator
