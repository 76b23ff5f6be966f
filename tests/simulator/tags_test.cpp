// The exchange by tagged entries: it passes what the exchange by counters passes, and its own bugs are found.
#include "cases.hpp"

namespace unisono::simulator {
namespace {

Kernel tagged(Mode mode, Schedule schedule, int ctas, int images, int tiles, int segment = 1) {
  Kernel k = kernel_of(mode, schedule, ctas, images, tiles);
  k.exchange = Exchange::kTags, k.segment_slots = segment;
  return k;
}

TEST(Tags, Resident) {
  for (const int ctas : {1, 2, 3})
    for (int tiles = 1; tiles <= ctas; ++tiles)
      expect_passes(on_one_stream(tagged(kResident, kCooperative, ctas, 2, tiles), 2));
  for (const int tiles : {1, 2, 3, 4}) {
    Kernel k = tagged(kResident, kPingPong, 2, 2, tiles);
    expect_passes(on_one_stream(k));
    k.k_blocks = 2, k.ordered_store = true;
    expect_passes(on_one_stream(k));
  }
}

TEST(Tags, Streamed) {
  for (const int tiles : {1, 2, 3, 4}) expect_passes(on_one_stream(tagged(kStreamed, kCooperative, 2, 1, tiles)));
  for (const int tiles : {1, 2, 4}) expect_passes(on_one_stream(tagged(kStreamed, kPingPong, 1, 2, tiles)));
  expect_passes(on_one_stream(tagged(kStreamed, kCooperative, 2, 2, 2), 2));
  Kernel k = tagged(kStreamed, kPingPong, 2, 1, 4);
  k.k_blocks = 2, k.store_buffers = 2;
  expect_passes(on_one_stream(k));
}

TEST(Tags, SegmentsHalvesAndChannelTiles) {
  expect_passes(on_one_stream(tagged(kResident, kCooperative, 3, 2, 3, 2)));
  expect_passes(on_one_stream(tagged(kResident, kPingPong, 2, 1, 4, 2)));
  expect_passes(on_one_stream(tagged(kStreamed, kCooperative, 2, 1, 3, 2)));
  Kernel k = tagged(kResident, kCooperative, 2, 1, 1, 2);
  k.tiles_n = 2, k.warpgroups = 2;
  expect_passes(on_one_stream(k));
}

TEST(Tags, TheConditionForResidentIsTheSame) {
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2})
      for (const int segment : {1, 2})
        for (const int tiles : {1, 2, 3, 4, 5}) {
          const Kernel k = tagged(kResident, schedule, ctas, 1, tiles, segment);
          resident_is_legal(k) ? expect_passes(on_one_stream(k))
                               : expect_fails(on_one_stream(k), FailureKind::kDeadlock);
        }
}

// By channels a tile waits for those of its channels, and where groups of channels cross tiles for their neighbours.
TEST(Tags, TheConditionForResidentByChannels) {
  int legal = 0, illegal = 0;
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2})
      for (const int segment : {1, 2})
        for (const int tiles : {1, 2, 3})
          for (const int channel_tiles : {2, 3})
            for (const int group_tiles : {1, 2, 3}) {
              Kernel k = tagged(kResident, schedule, ctas, 1, tiles, segment);
              k.tiles_n = channel_tiles, k.by_channels = true, k.group_tiles = group_tiles;
              if (tiles * channel_tiles > 6) continue;
              ++(resident_is_legal(k) ? legal : illegal);
              resident_is_legal(k) ? expect_passes(on_one_stream(k))
                                   : expect_fails(on_one_stream(k), FailureKind::kDeadlock);
            }
  EXPECT_GT(legal, 40);
  EXPECT_GT(illegal, 40);
  Kernel k = tagged(kResident, kPingPong, 2, 2, 2, 2);
  k.tiles_n = 3, k.by_channels = true, k.group_tiles = 2, k.k_blocks = 2;
  expect_passes(on_one_stream(k));
}

// The first part waits for the others: two parts of a tile for one warpgroup deadlock as two tiles do.
TEST(Tags, SplitK) {
  int legal = 0, illegal = 0;
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2, 3})
      for (const int tiles : {1, 2, 3})
        for (const int split_k : {2, 3})
          for (const int images : {1, 2}) {
            Kernel k = tagged(kResident, schedule, ctas, images, tiles, 2);
            k.split_k = split_k;
            const bool is_legal = resident_is_legal(k);
            ++(is_legal ? legal : illegal);
            is_legal ? expect_passes(on_one_stream(k)) : expect_fails(on_one_stream(k), FailureKind::kDeadlock);
          }
  EXPECT_GT(legal, 15);
  EXPECT_GT(illegal, 15);
  Kernel k = tagged(kResident, kCooperative, 2, 2, 1);
  k.split_k = 2, k.warpgroups = 2, k.k_blocks = 2;
  expect_passes(on_one_stream(k, 3));
  for (const Bug bug : {Bug::kPartialUnpublished, Bug::kRelaxedFlag, Bug::kNoFlagRelease})
    expect_catches(bug, FailureKind::kUnordered, on_one_stream(k));
}

TEST(Tags, ReplaysWrapOfTheEpochAndStreams) {
  for (const Mode mode : {kResident, kStreamed}) {
    Case c = on_one_stream(tagged(mode, kCooperative, 2, 1, 2, 2), 4);
    c.first_epoch = kEpochs - 2;
    expect_passes(c);
    for (const int processors : {1, 2})
      expect_passes(on_two_streams(tagged(mode, kCooperative, 1, 1, 1), processors), Reduction::kPrivate);
    c = on_one_stream(tagged(mode, kCooperative, 2, 1, 2), 2);
    for (Launch& launch : c.launches) launch.programmatic = true;
    c.processors = 4;
    expect_passes(c, Reduction::kPrivate);
  }
}

TEST(Tags, TwoEpochsAreEnough) {
  for (const Mode mode : {kResident, kStreamed}) {
    expect_needs_two_epochs(tagged(mode, kCooperative, 2, 2, 2));
    expect_needs_two_epochs(tagged(mode, kPingPong, 1, 1, 2, 2));
  }
  Kernel k = tagged(kResident, kCooperative, 2, 1, 1);
  k.split_k = 2;
  expect_needs_two_epochs(k, FailureKind::kUnordered);
}

// A tag is an epoch whatever the entry belongs to; but where a launch leaves entries alone, an old one's epoch must not
// come back.
TEST(Tags, ShapesMayShareAWorkspaceInTurn) {
  Case c = on_one_stream(tagged(kResident, kCooperative, 2, 1, 2), 3);
  c.launches[1].kernel.rows = 1;
  c.launches[2].kernel.mode = kStreamed;
  expect_passes(c);
  c.epochs = 2;
  expect_fails(c, FailureKind::kStale);
}

TEST(Tags, AnotherNumberOfCtasNeedsAnotherWorkspace) {
  Case c = on_one_stream(tagged(kResident, kPingPong, 1, 1, 2), 2);
  c.launches[1].kernel = tagged(kResident, kCooperative, 2, 1, 2);
  c.processors = 2;
  expect_fails(c, FailureKind::kStale);
  c.launches[1].workspace = 1;
  expect_passes(c);
}

TEST(Tags, FewerCtasThanAskedFor) {
  for (const int processors : {1, 2, 3}) {
    Case c = on_one_stream(fit(tagged(kResident, kPingPong, 4, 1, 4), processors));
    c.processors = processors;
    expect_passes(c);
  }
}

TEST(Tags, BugsOfTheExchange) {
  const Case resident = on_one_stream(tagged(kResident, kCooperative, 2, 1, 2));
  const Case segments = on_one_stream(tagged(kResident, kCooperative, 2, 1, 2, 2));
  for (const Case& c : {resident, segments}) {
    expect_catches(Bug::kTornEntry, FailureKind::kStale, c);
    expect_catches(Bug::kWaitBeforePublish, FailureKind::kDeadlock, c);
  }
  Case replay = on_one_stream(tagged(kResident, kCooperative, 2, 1, 2), 2);
  expect_passes(replay);
  for (Launch& launch : replay.launches) launch.kernel.bug = Bug::kEpochNotAdvanced;
  expect_fails(replay, FailureKind::kStale);
  Kernel k = tagged(kResident, kPingPong, 1, 1, 2);
  k.ordered_store = true;
  expect_catches(Bug::kStoreOrderBeforePublish, FailureKind::kDeadlock, on_one_stream(k));
  k = tagged(kResident, kCooperative, 3, 2, 11);
  k.tile_rows = 4;
  expect_catches(Bug::kStraddlingTile, FailureKind::kDeadlock, on_one_stream(k));
}

TEST(Tags, BugsOfTheSecondPass) {
  for (const Schedule schedule : {kCooperative, kPingPong}) {
    const Case c = on_one_stream(tagged(kStreamed, schedule, 1, 1, 4));
    for (const Bug bug :
         {Bug::kReadWaitOnly, Bug::kNoProxyFence, Bug::kWrongGroup, Bug::kRelaxedFlag, Bug::kNoFlagRelease})
      expect_catches(bug, FailureKind::kUnordered, c);
    expect_catches(Bug::kLeaveEarly, FailureKind::kOverwritten, c);
    expect_catches(Bug::kStagingReused, FailureKind::kOverwritten, c);
  }
}

TEST(Tags, LaunchesThatMustNotBe) {
  Case shared = on_two_streams(tagged(kResident, kCooperative, 2, 1, 2), 4);
  expect_passes(shared);
  shared.launches[1].workspace = 0;
  expect_fails(shared, FailureKind::kStale, Reduction::kPrivate);
  Case queued = on_one_stream(tagged(kStreamed, kCooperative, 3, 1, 3));
  queued.launches[0].cooperative = false;
  expect_passes(queued);
  queued.processors = 2;
  expect_fails(queued, FailureKind::kDeadlock);
}

}  // namespace
}  // namespace unisono::simulator
