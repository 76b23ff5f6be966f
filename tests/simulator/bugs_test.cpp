// Every seeded bug is found by an exploration that the correct protocol passes, with the failure that it causes.
#include "cases.hpp"

namespace unisono::simulator {
namespace {

Case resident() { return on_one_stream(kernel_of(kResident, kCooperative, 2, 2, 2)); }
Case streamed() { return on_one_stream(kernel_of(kStreamed, kCooperative, 2, 2, 3)); }

TEST(Bugs, TileThatStraddlesTwoImages) {
  // 2.75 tiles an image: whole tiles are 3; cut through the borders, image 1 touches 4, more than there are CTAs.
  Kernel k = kernel_of(kResident, kCooperative, 3, 2, 11);
  k.tile_rows = 4;
  ASSERT_TRUE(resident_is_legal(k));
  expect_catches(Bug::kStraddlingTile, FailureKind::kDeadlock, on_one_stream(k));
}

TEST(Bugs, WaitBeforePublish) {
  expect_catches(Bug::kWaitBeforePublish, FailureKind::kDeadlock, resident());
  expect_catches(Bug::kWaitBeforePublish, FailureKind::kDeadlock,
                 on_one_stream(kernel_of(kResident, kPingPong, 1, 2, 2)));
}

TEST(Bugs, TurnToStoreBeforePublish) {
  Kernel k = kernel_of(kResident, kPingPong, 1, 1, 2);
  k.ordered_store = true;
  expect_catches(Bug::kStoreOrderBeforePublish, FailureKind::kDeadlock, on_one_stream(k));
}

TEST(Bugs, TwoTilesOfAnImageForOneCta) {
  expect_passes(on_one_stream(kernel_of(kResident, kCooperative, 2, 2, 2)));
  expect_fails(on_one_stream(kernel_of(kResident, kCooperative, 2, 2, 3)), FailureKind::kDeadlock);
  expect_passes(on_one_stream(kernel_of(kStreamed, kCooperative, 2, 2, 3)));
}

TEST(Bugs, WorkspaceSharedByConcurrentLaunches) {
  for (const Mode mode : {kResident, kStreamed}) {
    Case c = on_two_streams(kernel_of(mode, kCooperative, 2, 1, 2), 4);
    expect_passes(c, Reduction::kPrivate);
    c.launches[1].workspace = 0;
    expect_fails(c, FailureKind::kUnordered, Reduction::kPrivate);
    c.launches[1].stream = 0;  // one after the other they may share it
    expect_passes(c, Reduction::kPrivate);
  }
}

TEST(Bugs, MoreCtasThanFitWithoutCooperativeLaunch) {
  for (const Mode mode : {kResident, kStreamed}) {
    Case c = on_one_stream(kernel_of(mode, kCooperative, 3, 1, 3));
    c.launches[0].cooperative = false;
    expect_passes(c);
    c.processors = 2;
    expect_fails(c, FailureKind::kDeadlock);
    c.launches[0].cooperative = true;
    expect_fails(c, FailureKind::kRefused);
    c.launches[0].kernel = fit(c.launches[0].kernel, c.processors);
    expect_passes(c);
  }
}

TEST(Bugs, TwoGridsThatFitAloneStartedCtaByCta) {
  Case c = on_two_streams(kernel_of(kResident, kCooperative, 2, 1, 2), 2);
  expect_passes(c);
  for (Launch& launch : c.launches) launch.cooperative = false;
  expect_fails(c, FailureKind::kDeadlock);
}

TEST(Bugs, ArrivalsWithoutOrder) {
  for (const Bug bug : {Bug::kNoRelease, Bug::kNoAcquire, Bug::kRelaxedCounter}) {
    expect_catches(bug, FailureKind::kUnordered, resident());
    expect_catches(bug, FailureKind::kUnordered, streamed());
    Kernel k = kernel_of(kResident, kCooperative, 4, 1, 4);
    k.segment_slots = 2;
    expect_catches(bug, FailureKind::kUnordered, on_one_stream(k));
  }
}

TEST(Bugs, FlagWithoutOrder) {
  for (const Bug bug : {Bug::kRelaxedFlag, Bug::kNoFlagRelease}) {
    expect_catches(bug, FailureKind::kUnordered, resident());
    expect_catches(bug, FailureKind::kUnordered, streamed());
  }
}

TEST(Bugs, ReReadOfARawTileThatIsStillOnItsWay) {
  expect_catches(Bug::kReadWaitOnly, FailureKind::kUnordered, streamed());
  expect_catches(Bug::kNoProxyFence, FailureKind::kUnordered, streamed());
  expect_catches(Bug::kWrongGroup, FailureKind::kUnordered, streamed());
}

TEST(Bugs, StagingBuffers) {
  for (const int buffers : {1, 2}) {
    Kernel k = kernel_of(kResident, kCooperative, 1, 4, 1);
    k.store_buffers = buffers;
    expect_catches(Bug::kStagingReused, FailureKind::kOverwritten, on_one_stream(k));
    expect_catches(Bug::kLeaveEarly, FailureKind::kOverwritten, on_one_stream(k));
  }
}

TEST(Bugs, EpochNotAdvanced) {
  expect_passes(on_one_stream(resident().launches[0].kernel, 2));
  Case c = resident();
  c.launches[0].kernel.bug = Bug::kEpochNotAdvanced;
  expect_fails(c, FailureKind::kBookkeeping);  // one launch alone gives right outputs
  c.launches.push_back(c.launches[0]);
  expect_fails(c, FailureKind::kStale);  // the second takes the first one's statistics
}

TEST(Bugs, EpochReadBeforeThePredecessorHasEnded) {
  Case c = on_one_stream(kernel_of(kResident, kCooperative, 1, 1, 1), 2);
  for (Launch& launch : c.launches) launch.programmatic = true;
  c.processors = 2;
  expect_catches(Bug::kEpochBeforeGridWait, FailureKind::kStale, c, Reduction::kPrivate);
}

// CTA 2 has no tile and may leave before the others start.
TEST(Bugs, EpochThatChangesAsCtasLeave) {
  for (const Exchange exchange : {Exchange::kCounters, Exchange::kTags}) {
    Kernel k = kernel_of(kResident, kCooperative, 3, 1, 2);
    k.exchange = exchange;
    expect_catches(Bug::kExitsAsEpoch, FailureKind::kDeadlock, on_one_stream(k), Reduction::kPrivate);
  }
}

// By its producer, which has loaded all while no consumer has the epoch: some take the next launch's.
TEST(Bugs, CtaCountedOutBeforeItsWarpsHaveTheEpoch) {
  for (const Exchange exchange : {Exchange::kCounters, Exchange::kTags}) {
    Kernel k = kernel_of(kResident, kCooperative, 2, 1, 2);
    k.exchange = exchange, k.k_blocks = 1;
    const auto kinds = failures(on_one_stream(k, 2), Bug::kCountedOutEarly, Reduction::kPrivate);
    EXPECT_TRUE(kinds.contains(FailureKind::kDeadlock)) << "consumers of one launch have different epochs";
    EXPECT_EQ(kinds.contains(FailureKind::kStale), exchange == Exchange::kTags) << "or two launches the same";
  }
}

TEST(Bugs, CountersSetToZeroBesideAReplay) {
  Case c = on_one_stream(kernel_of(kResident, kCooperative, 2, 1, 2), 2);
  expect_passes(c);
  Launch memset;
  memset.memset = true, memset.stream = 1;
  c.launches.push_back(memset);
  c.processors = 3;
  const Report report = explore_all(build(c), {.to_the_end = true});
  EXPECT_TRUE(report.kinds.contains(FailureKind::kDeadlock)) << "arrivals of an image are lost";
  EXPECT_TRUE(report.kinds.contains(FailureKind::kBookkeeping)) << "or the next replay's are";
}

TEST(Bugs, SplitK) {
  Kernel k = kernel_of(kResident, kCooperative, 2, 2, 1);
  k.split_k = 2;
  expect_catches(Bug::kPartialUnpublished, FailureKind::kUnordered, on_one_stream(k));
  k.mode = kStreamed, k.images = 1, k.rows = 3;
  expect_catches(Bug::kOneStoreLater, FailureKind::kUnordered, on_one_stream(k));
}

}  // namespace
}  // namespace unisono::simulator
