// The protocol between CTAs, explored exhaustively for small grids.
#include "cases.hpp"

namespace unisono::simulator {
namespace {

Case with_epoch(Case c, uint32_t epoch) {
  c.first_epoch = epoch;
  return c;
}

TEST(Protocol, ResidentCooperative) {
  for (const int ctas : {1, 2, 3})
    for (int tiles = 1; tiles <= ctas; ++tiles)
      for (const int images : {1, 2, 3})
        expect_passes(on_one_stream(kernel_of(kResident, kCooperative, ctas, images, tiles), 2));
}

TEST(Protocol, FurtherLargerGrids) {
  if (kSanitized) GTEST_SKIP() << "runs without sanitizers";
  expect_passes(on_one_stream(kernel_of(kResident, kCooperative, 5, 2, 5)));
  expect_passes(on_one_stream(kernel_of(kResident, kCooperative, 4, 3, 3), 2));
  expect_passes(on_one_stream(kernel_of(kResident, kPingPong, 3, 2, 6)));
  expect_passes(on_one_stream(kernel_of(kStreamed, kCooperative, 3, 2, 4)));
}

TEST(Protocol, ResidentPingPong) {
  for (const int k_blocks : {0, 1, 2})
    for (const int ctas : {1, 2})
      for (int tiles = 1; tiles <= 2 * ctas; ++tiles) {
        Kernel k = kernel_of(kResident, kPingPong, ctas, 3, tiles);
        k.k_blocks = k_blocks;
        expect_passes(on_one_stream(k));
        k.ordered_store = true;
        expect_passes(on_one_stream(k));
      }
}

TEST(Protocol, Streamed) {  // images of any number of tiles
  for (const int tiles : {1, 2, 3, 5}) expect_passes(on_one_stream(kernel_of(kStreamed, kCooperative, 2, 2, tiles)));
  for (const int tiles : {1, 3, 4}) expect_passes(on_one_stream(kernel_of(kStreamed, kPingPong, 2, 2, tiles)));
  expect_passes(on_one_stream(kernel_of(kStreamed, kCooperative, 3, 1, 7)));
  expect_passes(on_one_stream(kernel_of(kStreamed, kPingPong, 1, 2, 4)));
  Kernel k = kernel_of(kStreamed, kPingPong, 2, 2, 3);
  k.k_blocks = 2, k.store_buffers = 2;
  expect_passes(on_one_stream(k));
}

TEST(Protocol, ChannelTilesHalvesAndSegments) {
  for (const Mode mode : {kResident, kStreamed}) {
    Kernel k = kernel_of(mode, kCooperative, 2, 2, 1);
    k.tiles_n = 2, k.warpgroups = 2;
    k.images = mode == kResident ? 2 : 1;
    expect_passes(on_one_stream(k));
    k = kernel_of(mode, kPingPong, 2, 1, 4);
    k.segment_slots = 2;
    expect_passes(on_one_stream(k, 2));
    k.segment_slots = 3;  // the last segment is shorter
    expect_passes(on_one_stream(k));
  }
}

TEST(Protocol, SplitK) {
  for (const Mode mode : {kResident, kStreamed}) {
    Kernel k = kernel_of(mode, kCooperative, 3, 2, 1);
    k.split_k = 3;
    expect_passes(on_one_stream(k, 2));
    k = kernel_of(mode, kPingPong, 2, 1, 2);
    k.split_k = 2;
    expect_passes(on_one_stream(k, 2));
  }
  Kernel k = kernel_of(kStreamed, kCooperative, 2, 1, 3);
  k.split_k = 2;
  expect_passes(on_one_stream(k));
}

// No warpgroup is dealt items of two tiles of an image: then it cannot deadlock; and if one is, it can.
TEST(Protocol, TheConditionForResidentIsExact) {
  int legal = 0, illegal = 0;
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int ctas : {1, 2, 3})
      for (const int tiles : {1, 2, 3, 4, 5})
        for (const int split_k : {1, 2})
          for (const int images : {1, 2}) {
            Kernel k = kernel_of(kResident, schedule, ctas, images, tiles);
            k.split_k = split_k;
            if (k.items_per_image() > 6 || images * k.items_per_image() > 8) continue;
            const bool is_legal = resident_is_legal(k);
            ++(is_legal ? legal : illegal);
            is_legal ? expect_passes(on_one_stream(k)) : expect_fails(on_one_stream(k), FailureKind::kDeadlock);
          }
  EXPECT_GT(legal, 20);
  EXPECT_GT(illegal, 10);
}

TEST(Protocol, BackToBackAndReplays) {
  for (const Mode mode : {kResident, kStreamed}) {
    expect_passes(on_one_stream(kernel_of(mode, kCooperative, 2, 2, 2), 5));
    expect_passes(on_one_stream(kernel_of(mode, kPingPong, 1, 2, 2), 5));
  }
}

TEST(Protocol, CountersAndEpochWrap) {
  for (const Mode mode : {kResident, kStreamed})
    for (const uint32_t epoch : {kEpochs - 3, kEpochs - 2, kEpochs - 1})
      expect_passes(with_epoch(on_one_stream(kernel_of(mode, kCooperative, 3, 2, 3), 4), epoch));
}

TEST(Protocol, TwoEpochsAreEnough) {
  for (const Mode mode : {kResident, kStreamed}) {
    Kernel k = kernel_of(mode, kCooperative, 2, 2, 2);
    expect_needs_two_epochs(k);
    k = kernel_of(mode, kPingPong, 2, 1, 4);
    k.segment_slots = 2;
    expect_needs_two_epochs(k);
    k = kernel_of(mode, kCooperative, 4, 1, 2);
    k.split_k = 2;
    expect_needs_two_epochs(k);
  }
}

// CTAs without a tile leave while others have not started; or have not begun to read, which is explored without the
// reduction that lets them read at once.
TEST(Protocol, TheEpochIsTheSameWhoeverHasLeft) {
  for (const Mode mode : {kResident, kStreamed})
    for (const Exchange exchange : {Exchange::kCounters, Exchange::kTags})
      for (const int tiles : {1, 2}) {
        Kernel k = kernel_of(mode, kCooperative, 3, 1, tiles);
        k.exchange = exchange;
        Case c = with_epoch(on_one_stream(k, 3), kEpochs - 1);
        expect_passes(c, Reduction::kPrivate);
        for (Launch& launch : c.launches) launch.cooperative = false;
        expect_passes(c, Reduction::kPrivate);
      }
}

TEST(Protocol, ResidentAndStreamedShareAWorkspaceInTurn) {
  Case c = on_one_stream(kernel_of(kResident, kCooperative, 2, 2, 2), 3);
  c.launches[1].kernel.mode = kStreamed;
  expect_passes(c);
}

// A counter's arrivals are part of its meaning: another shape needs a workspace of its own, or one set to zero.
TEST(Protocol, ShapesDoNotShareAWorkspace) {
  Case c = on_one_stream(kernel_of(kResident, kCooperative, 2, 1, 2), 2);
  c.launches[1].kernel.rows = 1;
  expect_fails(c, FailureKind::kDeadlock);
  c.launches[1].workspace = 1;
  expect_passes(c);
}

TEST(Protocol, FewerCtasThanAskedFor) {
  for (const Schedule schedule : {kCooperative, kPingPong})
    for (const int tiles : {1, 2, 4}) {
      const Kernel asked = kernel_of(kResident, schedule, 4, 2, tiles);
      for (const int processors : {1, 2, 3}) {
        Case c = on_one_stream(fit(asked, processors));
        c.processors = processors;
        expect_passes(c);
        c.launches[0].kernel = asked;
        expect_fails(c, FailureKind::kRefused);
      }
    }
  Kernel pairs = kernel_of(kResident, kCooperative, 4, 2, 2);
  pairs.cluster_n = 2;
  EXPECT_EQ(fit(pairs, 3).ctas, 2);
  EXPECT_EQ(fit(pairs, 3).mode, kStreamed);
  Case c = on_one_stream(fit(pairs, 3));
  c.processors = 3;
  expect_passes(c);
}

TEST(Protocol, TwoStreams) {
  for (const Mode mode : {kResident, kStreamed})
    for (const int processors : {2, 3, 4})
      expect_passes(on_two_streams(kernel_of(mode, kCooperative, 2, 2, 2), processors), Reduction::kPrivate);
  expect_passes(on_two_streams(kernel_of(kResident, kPingPong, 1, 2, 2), 2), Reduction::kPrivate);
}

TEST(Protocol, BesideABusyStream) {
  Case c = on_two_streams(kernel_of(kResident, kCooperative, 2, 2, 2), 2);
  c.launches[1].kernel = kernel_of(Mode::kPlain, kCooperative, 5, 1, 5);
  c.launches[1].cooperative = false;
  expect_passes(c);
}

// The next launch starts while its predecessor runs, and waits before it touches the workspace.
TEST(Protocol, ProgrammaticLaunches) {
  for (const Mode mode : {kResident, kStreamed}) {
    Case c = on_one_stream(kernel_of(mode, kCooperative, 2, 2, 2), 3);
    for (Launch& launch : c.launches) launch.programmatic = true;
    for (const int processors : {2, 3, 4, 6}) {
      c.processors = processors;
      expect_passes(c, Reduction::kPrivate);
    }
  }
}

TEST(Protocol, ReductionsAgree) {
  std::vector<Case> cases = {on_one_stream(kernel_of(kResident, kCooperative, 2, 2, 2), 2),
                             on_one_stream(kernel_of(kStreamed, kCooperative, 2, 1, 3)),
                             on_one_stream(kernel_of(kResident, kPingPong, 1, 2, 2)),
                             on_two_streams(kernel_of(kResident, kCooperative, 1, 1, 1), 2)};
  for (Launch& launch : cases[2].launches) launch.kernel.k_blocks = 2;
  for (const Case& c : cases) expect_reductions_agree(c);
}

}  // namespace
}  // namespace unisono::simulator
