// Inside a CTA or a cluster: the ring, its barriers' phases, the order of ping-pong's main loops, multicast. Explored
// with all orders of barrier operations and deliveries. The image waits end at any time: other CTAs, without main
// loops, publish.
#include "cases.hpp"

namespace unisono::simulator {
namespace {

Kernel with_ring(Kernel k, int k_blocks, int stages) {
  k.k_blocks = k_blocks, k.stages = stages;
  return k;
}

// One cluster with main loops beside another that only publishes.
Kernel clustered(Mode mode, Schedule schedule, int m, int n, int images) {
  Kernel k = with_ring(kernel_of(mode, schedule, m * n, images, schedule == kPingPong ? 2 : 1), 2, 2);
  k.cluster_m = m, k.cluster_n = n;
  return k;
}

TEST(Pipeline, Cooperative) {
  for (const int stages : {2, 3})
    for (const int k_blocks : {1, 2, 3}) {
      Kernel k = with_ring(kernel_of(kResident, kCooperative, 2, 2, 2), k_blocks, stages);
      k.warpgroups = 2, k.main_loops = 1;
      expect_passes(on_one_stream(k), Reduction::kPrivate);
    }
}

TEST(Pipeline, PingPong) {
  for (const Mode mode : {kResident, kStreamed})
    for (const int stages : {2, 3})
      for (const int k_blocks : {1, 2, 3}) {
        Kernel k = with_ring(kernel_of(mode, kPingPong, 2, mode == kResident ? 3 : 2, 3), k_blocks, stages);
        k.main_loops = 1;
        expect_passes(on_one_stream(k), Reduction::kPrivate);
      }
}

// A stage is released once the matrix instruction of the next one has been issued.
TEST(Pipeline, OneStageIsNotEnough) {
  expect_passes(on_one_stream(with_ring(kernel_of(kResident, kCooperative, 1, 2, 1), 1, 1)), Reduction::kNone);
  expect_fails(on_one_stream(with_ring(kernel_of(kResident, kCooperative, 1, 2, 1), 2, 1)), FailureKind::kDeadlock,
               Reduction::kNone);
}

TEST(Pipeline, PingPongWithoutAnyReduction) {
  expect_passes(on_one_stream(with_ring(kernel_of(kResident, kPingPong, 1, 2, 2), 3, 2)), Reduction::kNone);
  expect_passes(on_one_stream(with_ring(kernel_of(Mode::kPlain, kPingPong, 1, 1, 5), 2, 3)), Reduction::kNone);
}

TEST(Pipeline, PingPongThatTakesTurnsAtStoring) {
  for (const int tiles : {1, 2, 3, 4}) {
    Kernel k = with_ring(kernel_of(kResident, kPingPong, 2, 2, tiles), 2, 2);
    k.ordered_store = true, k.main_loops = 1;
    expect_passes(on_one_stream(k), Reduction::kPrivate);
  }
}

TEST(Pipeline, FurtherClustersShareWhatTheyLoad) {
  if (kSanitized) GTEST_SKIP() << "runs without sanitizers";
  expect_passes(on_one_stream(clustered(kResident, kCooperative, 1, 2, 3)), Reduction::kPrivate);
  expect_passes(on_one_stream(clustered(kResident, kCooperative, 2, 1, 3)), Reduction::kPrivate);
  expect_passes(on_one_stream(clustered(kStreamed, kCooperative, 1, 2, 2)), Reduction::kPrivate);
  expect_passes(on_one_stream(clustered(kResident, kPingPong, 1, 2, 1)), Reduction::kPrivate);
}

TEST(Pipeline, LargerClusters) {
  expect_passes(on_one_stream(clustered(kResident, kCooperative, 1, 3, 2)));
  expect_passes(on_one_stream(clustered(kResident, kCooperative, 2, 2, 2)));
  expect_passes(on_one_stream(clustered(kResident, kCooperative, 1, 5, 1)));
  expect_passes(on_one_stream(clustered(kStreamed, kPingPong, 1, 2, 1)));
}

TEST(Pipeline, CatchesPhaseBugs) {
  const Case ping_pong = on_one_stream(with_ring(kernel_of(kResident, kPingPong, 1, 3, 2), 3, 2));
  expect_catches(Bug::kProducerParity, FailureKind::kOverwritten, ping_pong, Reduction::kPrivate);
  expect_catches(Bug::kConsumerPosition, FailureKind::kWrongStage, ping_pong, Reduction::kPrivate);
  expect_catches(Bug::kReleaseBeforeRead, FailureKind::kWrongStage, ping_pong, Reduction::kPrivate);
}

TEST(Pipeline, CatchesAMissingOrderOfMainLoops) {  // the parity of a phase two ahead looks as if it had come
  const Case c = on_one_stream(with_ring(kernel_of(Mode::kPlain, kPingPong, 1, 1, 4), 1, 1));
  expect_catches(Bug::kNoTurn, FailureKind::kWrongStage, c, Reduction::kPrivate);
}

// Row and column clusters, small enough for all orders in which arrivals at other CTAs may land.
Case tiny_cluster(int m, int n, int tiles) {
  Kernel k = with_ring(kernel_of(Mode::kPlain, kCooperative, m * n, 1, tiles), 1, 1);
  k.cluster_m = m, k.cluster_n = n;
  return on_one_stream(k);
}

TEST(Pipeline, ArrivalsAtOtherCtasLandInAnyOrder) {
  if (kSanitized) GTEST_SKIP() << "runs without sanitizers";
  expect_passes(tiny_cluster(1, 2, 5), Reduction::kPrivate);
}

TEST(Pipeline, FurtherArrivalsAtOtherCtasLandInAnyOrder) {
  if (kSanitized) GTEST_SKIP() << "runs without sanitizers";
  expect_passes(tiny_cluster(1, 3, 3), Reduction::kPrivate);
  expect_passes(tiny_cluster(3, 1, 3), Reduction::kPrivate);
  expect_passes(tiny_cluster(2, 2, 2), Reduction::kPrivate);
}

TEST(Pipeline, CatchesClusterBugs) {
  const Case c = on_one_stream(clustered(kResident, kCooperative, 1, 2, 2));
  expect_catches(Bug::kLocalRelease, FailureKind::kOverwritten, c, Reduction::kPrivate);
  // With statistics the image's flag happens to hold the first CTA back until the other is done with the ring.
  const Case plain = on_one_stream(clustered(Mode::kPlain, kCooperative, 1, 2, 1));
  expect_catches(Bug::kNoClusterSync, FailureKind::kAfterExit, plain, Reduction::kPrivate);
}

// Told of its row and column only, a CTA's count may be completed by a neighbour a round ahead of a third CTA.
TEST(Pipeline, CatchesReleaseToRowAndColumnOnly) {
  Case c = tiny_cluster(2, 2, 2);
  c.launches[0].kernel.bug = Bug::kRowColumnRelease;
  expect_fails(c, FailureKind::kOverwritten, Reduction::kPrivate);
  for (const auto& [m, n] : {std::pair(1, 3), std::pair(3, 1)}) {  // in a row or a column alone it is the whole cluster
    Case row = tiny_cluster(m, n, 3);
    row.launches[0].kernel.bug = Bug::kRowColumnRelease;
    expect_passes(row, Reduction::kPrivate);
  }
}

}  // namespace
}  // namespace unisono::simulator
