// Streamed with kept tiles: first passes wait, but only for images before that of the tile last published.
#include <algorithm>

#include "cases.hpp"

namespace unisono::simulator {
namespace {

Kernel kept(Schedule schedule, int ctas, int images, int tiles, int segment = 1) {
  Kernel k = kernel_of(kKept, schedule, ctas, images, tiles);
  k.exchange = Exchange::kTags, k.segment_slots = segment;
  return k;
}

// The first consumer's steps: stores of tiles that are spilled, and loads back.
std::pair<int, int> spills_and_loads(const Kernel& kernel) {
  const System system = build(on_one_stream(kernel));
  const AgentSpec& agent = system.agents[kernel.k_blocks > 0 ? 1 : 0];
  const auto is_spill = [](const Instruction& i) {
    return i.op == Op::kStore && Kind(i.value >> 16 & 15) == Kind::kRaw;
  };
  const auto is_load = [](const Instruction& i) { return i.op == Op::kLoad; };
  return {int(std::count_if(agent.code.begin(), agent.code.end(), is_spill)),
          int(std::count_if(agent.code.begin(), agent.code.end(), is_load))};
}

TEST(Kept, WhichTilesAreSpilled) {
  using Counts = std::pair<int, int>;
  EXPECT_EQ(spills_and_loads(kept(kCooperative, 1, 4, 1)), Counts(0, 0));
  EXPECT_EQ(spills_and_loads(kept(kCooperative, 2, 2, 2)), Counts(0, 0));
  EXPECT_EQ(spills_and_loads(kept(kCooperative, 1, 2, 2)), Counts(2, 2));  // of each image the second stays
  EXPECT_EQ(spills_and_loads(kept(kCooperative, 1, 1, 4)), Counts(3, 3));
  // Tile 3, spilled while older tiles of another image wait, and both of those.
  EXPECT_EQ(spills_and_loads(kept(kCooperative, 1, 2, 3)), Counts(4, 4));
  // 16 tiles of image 0; tile 16 finds 14 of them spilled, each of the next two tiles takes two back.
  EXPECT_EQ(spills_and_loads(kept(kCooperative, 1, 2, 16)).first, 30);
  Kernel channels = kept(kCooperative, 1, 2, 1);
  channels.tiles_n = 2;  // an image's tiles differ in their columns: the order is kept
  EXPECT_EQ(spills_and_loads(channels), Counts(4, 4));
  Kernel window = kept(kCooperative, 1, 1, 4);
  window.window = 2;  // the last is not finished out of turn
  EXPECT_EQ(spills_and_loads(window), Counts(4, 4));
}

TEST(Kept, Cooperative) {
  for (const int segment : {1, 2})
    for (const int ctas : {1, 2, 3})
      for (const int images : {1, 2, 3})
        for (int tiles = 1; tiles * images <= (ctas == 1 ? 12 : 6); ++tiles)
          expect_passes(on_one_stream(kept(kCooperative, ctas, images, tiles, segment)));
  expect_passes(on_one_stream(kept(kCooperative, 3, 2, 4, 2)));
}

TEST(Kept, FurtherGrids) {
  if (kSanitized) GTEST_SKIP() << "runs without sanitizers";
  expect_passes(on_one_stream(kept(kCooperative, 3, 3, 4, 2)));
  expect_passes(on_one_stream(kept(kCooperative, 4, 3, 5)));
  expect_passes(on_one_stream(kept(kPingPong, 2, 3, 4)));
  expect_passes(on_one_stream(kept(kPingPong, 2, 2, 4, 2)));
  expect_passes(on_one_stream(kept(kPingPong, 3, 2, 4)));
}

TEST(Kept, PingPong) {
  for (const int k_blocks : {0, 2})
    for (const int images : {1, 2, 3})
      for (int tiles = 1; tiles * images <= 8; ++tiles) {
        Kernel k = kept(kPingPong, 1, images, tiles, 2);
        k.k_blocks = k_blocks;
        expect_passes(on_one_stream(k));
      }
  for (const int tiles : {1, 3, 4}) expect_passes(on_one_stream(kept(kPingPong, 2, 1, tiles)));
  expect_passes(on_one_stream(kept(kPingPong, 2, 2, 4)));
  for (const int segment : {1, 2}) {  // two consumer groups of two warpgroups each
    Kernel k = kept(kPingPong, 2, 2, 2, segment);
    k.warpgroups = 4, k.k_blocks = 2;
    expect_passes(on_one_stream(k));
    k.ctas = 1, k.rows = 4;
    expect_passes(on_one_stream(k));
  }
}

// With all orders of barrier operations, of handovers and of what TMA brings.
TEST(Kept, InsideACta) {
  Kernel k = kept(kCooperative, 1, 2, 3);
  k.k_blocks = 2;
  expect_passes(on_one_stream(k), Reduction::kPrivate);
  k.images = 3, k.rows = 2, k.segment_slots = 2, k.warpgroups = 2;
  expect_passes(on_one_stream(k), Reduction::kPrivate);
  k = kept(kPingPong, 1, 2, 4);
  k.k_blocks = 2;
  expect_passes(on_one_stream(k), Reduction::kPrivate);
  k.images = 3, k.rows = 2;
  expect_passes(on_one_stream(k), Reduction::kPrivate);
  k.images = 2, k.rows = 3, k.segment_slots = 2;
  expect_passes(on_one_stream(k), Reduction::kPrivate);
  k = kept(kPingPong, 1, 1, 3);
  k.warpgroups = 4, k.k_blocks = 1;
  expect_passes(on_one_stream(k), Reduction::kPrivate);
  k.images = 2, k.rows = 2, k.k_blocks = 0;
  expect_passes(on_one_stream(k), Reduction::kPrivate);
}

TEST(Kept, BesideOtherCtasWithoutMuchReduction) {
  if (kSanitized) GTEST_SKIP() << "runs without sanitizers";
  expect_passes(on_one_stream(kept(kCooperative, 2, 2, 3, 2)), Reduction::kPrivate);
  expect_passes(on_one_stream(kept(kCooperative, 3, 2, 2)), Reduction::kPrivate);
  expect_passes(on_one_stream(kept(kPingPong, 2, 2, 2)), Reduction::kPrivate);
  expect_passes(on_one_stream(kept(kCooperative, 2, 2, 2)), Reduction::kNone);
  Kernel k = kept(kPingPong, 1, 2, 3);
  k.k_blocks = 1;
  expect_passes(on_one_stream(k), Reduction::kNone);
}

TEST(Kept, HalvesChannelTilesAndClusters) {
  for (const int ctas : {1, 2})
    for (const int channel_tiles : {2, 3}) {
      Kernel k = kept(kCooperative, ctas, 2, ctas == 1 ? 2 : 1);
      k.tiles_n = channel_tiles;
      expect_passes(on_one_stream(k));
    }
  Kernel k = kept(kPingPong, 1, 2, 1, 2);
  k.tiles_n = 3, k.k_blocks = 2;
  expect_passes(on_one_stream(k));
  k = kept(kCooperative, 2, 2, 2);
  k.warpgroups = 2;
  expect_passes(on_one_stream(k));
  for (const auto& [m, n] : {std::pair(1, 2), std::pair(2, 1)}) {
    k = kept(kCooperative, 2, 2, 2);
    k.cluster_m = m, k.cluster_n = n, k.k_blocks = 2;
    expect_passes(on_one_stream(k));
  }
}

// All tiles of some channels of an image ahead of those of its next channels: the condition of deadlock is the same
// with channels of an image in place of images.
TEST(Kept, ByChannels) {
  Kernel spilled = kept(kCooperative, 1, 1, 2);
  spilled.tiles_n = 2, spilled.by_channels = true;
  EXPECT_EQ(spills_and_loads(spilled), std::pair(2, 2));  // of each channels' tiles the second stays
  for (const int segment : {1, 2})
    for (const int ctas : {1, 2})
      for (const int channel_tiles : {2, 3})
        for (int tiles = 1; tiles * channel_tiles <= (ctas == 1 ? 8 : 4); ++tiles) {
          Kernel k = kept(kCooperative, ctas, ctas == 1 ? 2 : 1, tiles, segment);
          k.tiles_n = channel_tiles, k.by_channels = true;
          expect_passes(on_one_stream(k));
        }
  Kernel k = kept(kPingPong, 1, 2, 2, 2);
  k.tiles_n = 2, k.k_blocks = 2, k.by_channels = true;
  expect_passes(on_one_stream(k));
  k = kept(kPingPong, 2, 1, 3);
  k.tiles_n = 2, k.by_channels = true;
  expect_passes(on_one_stream(k));
  k = kept(kCooperative, 2, 2, 2);
  k.cluster_n = 2, k.tiles_n = 2, k.by_channels = true;
  expect_passes(on_one_stream(k));
}

TEST(Kept, ByChannelsWhereGroupsCrossTiles) {
  Kernel k = kept(kCooperative, 1, 1, 2);
  k.tiles_n = 2, k.by_channels = true;
  expect_catches(Bug::kGroupsCrossTiles, FailureKind::kDeadlock, on_one_stream(k));
}

TEST(Kept, MoreTilesThanTheWindowHolds) {
  for (const int window : {1, 2, 3})
    for (const int images : {1, 2}) {
      Kernel k = kept(kCooperative, 1, images, 12 / images);
      k.window = window;
      expect_passes(on_one_stream(k));
    }
}

TEST(Kept, ReplaysWrapOfTheEpochAndStreams) {
  Case c = on_one_stream(kept(kCooperative, 2, 2, 3, 2), 3);
  c.first_epoch = kEpochs - 2;
  expect_passes(c);
  expect_passes(on_one_stream(kept(kPingPong, 1, 2, 4), 4));
  expect_needs_two_epochs(kept(kCooperative, 2, 1, 3, 2));
  expect_needs_two_epochs(kept(kPingPong, 1, 2, 4));
  for (const int processors : {1, 2})
    expect_passes(on_two_streams(kept(kCooperative, 1, 1, 2), processors), Reduction::kPrivate);
  c = on_one_stream(kept(kCooperative, 2, 1, 3), 2);
  for (Launch& launch : c.launches) launch.programmatic = true;
  for (const int processors : {2, 3, 4}) {
    c.processors = processors;
    expect_passes(c, Reduction::kPrivate);
  }
}

TEST(Kept, SharesAWorkspaceWithOtherShapesAndModesInTurn) {
  Case c = on_one_stream(kept(kCooperative, 2, 2, 2), 4);
  c.launches[1].kernel.mode = kResident;
  c.launches[2].kernel.rows = 5;
  c.launches[3].kernel.mode = kStreamed;
  expect_passes(c);
}

TEST(Kept, FewerCtasThanAskedFor) {
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int processors : {1, 2, 3}) {
      Case c = on_one_stream(fit(kept(schedule, 4, 2, 3), processors));
      c.processors = processors;
      if (schedule == kCooperative || processors == 1) expect_passes(c);
      c.launches[0].kernel = kept(schedule, 4, 2, 3);
      expect_fails(c, FailureKind::kRefused);
    }
  Kernel resident = kept(kCooperative, 3, 2, 3);
  resident.mode = kResident;
  EXPECT_EQ(fit(resident, 3).mode, kResident);
  EXPECT_EQ(fit(resident, 2).mode, kKept);
  Case c = on_one_stream(fit(resident, 2));
  c.processors = 2;
  expect_passes(c);
}

// Every wait is for something that stays true, and no program branches: if one schedule ends, all do.
TEST(Kept, EveryShapeEnds) {
  int shapes = 0;
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2, 3, 4, 6, 8})
      for (const auto& [cluster_m, cluster_n] : {std::pair(1, 1), std::pair(1, 2), std::pair(2, 1)})
        for (const int images : {1, 2, 3, 5})
          for (const int tiles : {1, 2, 3, 4, 5, 7, 9, 16})
            for (const int channel_tiles : {1, 2, 3}) {
              Kernel k = kept(schedule, ctas, images, tiles, 1 + tiles / 3);
              k.cluster_m = cluster_m, k.cluster_n = cluster_n, k.tiles_n = channel_tiles, k.k_blocks = 2;
              const int items = images * tiles * channel_tiles;
              if (ctas % k.cluster_ctas() != 0 || items > 40 || items > 30 * k.clusters()) continue;
              const Report report = explore_random(build(on_one_stream(k)), uint64_t(++shapes), 1);
              ASSERT_FALSE(report.failure) << to_string(on_one_stream(k)) << '\n' << report.trace;
            }
  EXPECT_GT(shapes, 500);
}

// A consumer group that has two tiles of an image has published both when it waits; one that has three has not.
TEST(Kept, WaitingForTheImageOfTheTileJustPublishedDeadlocks) {
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2})
      for (const int tiles : {1, 2, 3, 4, 5}) {
        Case c = on_one_stream(kept(schedule, ctas, 1, tiles));
        expect_passes(c);
        c.launches[0].kernel.bug = Bug::kWaitForOwnImage;
        tiles > 2 * ctas*(schedule == kPingPong ? 2 : 1) ? expect_fails(c, FailureKind::kDeadlock) : expect_passes(c);
      }
}

// The waits are for images before that of the tile at hand: publishing it first is a matter of time only.
TEST(Kept, WaitingBeforePublishingDoesNotDeadlock) {
  for (const int tiles : {1, 2, 3}) {
    Kernel k = kept(kCooperative, 2, 2, tiles);
    k.bug = Bug::kWaitBeforePublish;
    expect_passes(on_one_stream(k));
  }
}

TEST(Kept, BugsOfColumns) {
  for (const Schedule schedule : {kCooperative, kPingPong}) {
    const Case c = on_one_stream(kept(schedule, 1, 3, schedule == kPingPong ? 2 : 1));
    expect_catches(Bug::kColumnsOverwritten, FailureKind::kOverwritten, c, Reduction::kPrivate);
    expect_catches(Bug::kColumnsOfAnotherImage, FailureKind::kWrongStage,
                   on_one_stream(kept(schedule, 1, 2, schedule == kPingPong ? 6 : 3)));
    expect_catches(Bug::kColumnsNotReturned, FailureKind::kDeadlock, c);
  }
  Kernel k = kept(kCooperative, 1, 1, 2);
  k.tiles_n = 2;
  expect_catches(Bug::kOneRunAnImage, FailureKind::kDeadlock, on_one_stream(k));
}

TEST(Kept, BugsOfSpilledTiles) {
  for (const Schedule schedule : {kCooperative, kPingPong}) {
    const Case c = on_one_stream(kept(schedule, 1, 2, schedule == kPingPong ? 4 : 2));
    for (const Bug bug : {Bug::kReadWaitOnly, Bug::kNoProxyFence, Bug::kWrongGroup})
      expect_catches(bug, FailureKind::kUnordered, c);
    for (const Bug bug : {Bug::kStagingReused, Bug::kStagingLoadedOver, Bug::kLeaveEarly})
      expect_catches(bug, FailureKind::kOverwritten, c);
    const auto kinds = failures(c, Bug::kLoadedParity, Reduction::kPrivate);  // a phase ahead, or never
    EXPECT_TRUE(kinds.contains(FailureKind::kWrongStage) && kinds.contains(FailureKind::kDeadlock));
  }
}

TEST(Kept, BugsOfTheExchange) {
  const Case c = on_one_stream(kept(kCooperative, 2, 2, 3, 2));
  expect_catches(Bug::kTornEntry, FailureKind::kStale, c);
  Case replay = on_one_stream(c.launches[0].kernel, 2);
  expect_passes(replay);
  for (Launch& launch : replay.launches) launch.kernel.bug = Bug::kEpochNotAdvanced;
  expect_fails(replay, FailureKind::kStale);
  Case shared = on_two_streams(kept(kCooperative, 1, 2, 2), 2);
  expect_passes(shared);
  shared.launches[1].workspace = 0;
  const Report report = explore_all(build(shared), {.reduction = Reduction::kPrivate, .to_the_end = true});
  EXPECT_TRUE(report.kinds.contains(FailureKind::kStale));
  Case queued = on_one_stream(kept(kCooperative, 3, 2, 3));
  queued.launches[0].cooperative = false;
  expect_passes(queued);
  queued.processors = 2;
  expect_fails(queued, FailureKind::kDeadlock);
}

TEST(Kept, ReductionsAgree) {
  for (const Case& c : {on_one_stream(kept(kCooperative, 1, 2, 2), 2), on_one_stream(kept(kPingPong, 1, 1, 3))})
    expect_reductions_agree(c);
}

}  // namespace
}  // namespace unisono::simulator
