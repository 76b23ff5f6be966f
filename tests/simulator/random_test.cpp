// Large cases, drawn at random and explored along random schedules. A failure prints the case, the seed and the
// schedule.
#include <algorithm>
#include <random>

#include "cases.hpp"

namespace unisono::simulator {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random(seed) {}
  int from(int low, int high) { return low + int(random() % uint64_t(high - low + 1)); }
  bool one_in(int n) { return random() % uint64_t(n) == 0; }

 private:
  std::mt19937_64 random;
};

// A legal kernel whose warpgroups have at most 32 items.
Kernel random_kernel(Draw& draw) {
  for (;;) {
    Kernel k = kernel_of(draw.one_in(2) ? kStreamed : kResident, draw.one_in(2) ? kPingPong : kCooperative, 0,
                         draw.from(1, 6), 0);
    k.cluster_n = draw.one_in(3) ? draw.from(2, 5) : 1;
    k.cluster_m = draw.one_in(4) && k.cluster_n < 3 ? 2 : 1;
    k.ctas = draw.from(1, 12 / k.cluster_ctas()) * k.cluster_ctas();
    k.rows = draw.from(1, 60), k.tile_rows = draw.from(1, 9);  // the last tile of an image may be partly empty
    k.tiles_n = draw.from(1, 3);
    k.split_k = draw.one_in(4) ? draw.from(2, 4) : 1;
    k.segment_slots = draw.from(1, 5);
    if ((k.split_k == 1 || k.mode == kResident) && draw.one_in(2)) k.exchange = Exchange::kTags;
    if (k.exchange == Exchange::kTags && k.mode == kStreamed && !draw.one_in(4)) k.mode = kKept;
    k.warpgroups = k.schedule == kPingPong || draw.one_in(2) ? 2 : 1;
    if (k.schedule == kPingPong && k.mode != kStreamed && draw.one_in(2)) k.warpgroups = 4;
    if (draw.one_in(3)) k.window = draw.from(1, 4);
    k.stages = draw.from(2, 4), k.k_blocks = draw.from(1, 4);
    k.store_buffers = draw.from(1, 3);
    k.ordered_store = k.schedule == kPingPong && k.mode == kResident && k.split_k == 1 && draw.one_in(2);
    const int items = k.images * k.items_per_image(), holders = k.clusters() * (k.schedule == kPingPong ? 2 : 1);
    if (items > 30 * holders || items * k.cluster_ctas() > 150) continue;
    if (k.mode == kResident && !resident_is_legal(k)) continue;
    return k;
  }
}

// Up to three streams of up to three replays each; one may be of plain kernels that are started CTA by CTA.
Case random_case(Draw& draw) {
  Case c;
  c.first_epoch = draw.one_in(2) ? 0 : kEpochs - uint32_t(draw.from(1, 4));
  int largest = 0, all = 0;
  for (int stream = 0, streams = draw.from(1, 3); stream < streams; ++stream) {
    Launch launch{random_kernel(draw), stream, stream, stream};
    if (stream > 0 && draw.one_in(3)) {
      launch.kernel.mode = Mode::kPlain;
      launch.kernel.ordered_store = false;
      launch.cooperative = false;
    }
    launch.programmatic = launch.cooperative && draw.one_in(4);
    c.launches.insert(c.launches.end(), size_t(draw.from(1, 3)), launch);
    largest = std::max(largest, launch.kernel.ctas);
    all += launch.kernel.ctas;
  }
  c.processors = draw.from(largest, all + largest);
  if (draw.one_in(4)) c.epochs = 2, c.first_epoch %= 2;
  return c;
}

void expect_cases_pass(uint64_t first, uint64_t last) {
  constexpr int kSchedules = 2;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Draw draw(seed);
    const Case c = random_case(draw);
    const Report report = explore_random(build(c), seed << 20, kSchedules);
    ASSERT_FALSE(report.failure) << "case " << seed << ": " << to_string(c) << '\n' << report.trace;
  }
}

TEST(Random, LargeCasesPass) { expect_cases_pass(1, 80); }

TEST(Random, FurtherLargeCasesPass) {
  if (kSanitized) GTEST_SKIP() << "runs without sanitizers";
  expect_cases_pass(81, 400);
}

// The sampling finds what the protocol must not do in large cases too.
void expect_sampled(Case c, Bug bug, const std::vector<FailureKind>& kinds) {
  EXPECT_FALSE(explore_random(build(c), 1, 20).failure) << to_string(c);
  for (Launch& launch : c.launches) launch.kernel.bug = bug;
  const Report report = explore_random(build(c), 1, 20);
  ASSERT_TRUE(report.failure) << to_string(c);
  EXPECT_TRUE(std::find(kinds.begin(), kinds.end(), report.failure->kind) != kinds.end()) << report.trace;
  EXPECT_TRUE(report.trace.starts_with("seed ")) << report.trace;
}

Case large(Mode mode, Schedule schedule, Exchange exchange = Exchange::kCounters) {
  Kernel k = kernel_of(mode, schedule, 12, 6, schedule == kPingPong && mode == kResident ? 20 : 12);
  k.k_blocks = 3, k.stages = 3, k.segment_slots = 4, k.exchange = exchange;
  return on_one_stream(k, 2);
}

TEST(Random, FindsBugsInLargeCases) {
  using enum FailureKind;
  expect_sampled(large(kResident, kCooperative), Bug::kWaitBeforePublish, {kDeadlock});
  expect_sampled(large(kResident, kPingPong), Bug::kNoRelease, {kUnordered});
  expect_sampled(large(kResident, kPingPong), Bug::kRelaxedFlag, {kUnordered});
  expect_sampled(large(kResident, kCooperative), Bug::kEpochNotAdvanced, {kStale});
  expect_sampled(large(kStreamed, kPingPong), Bug::kReadWaitOnly, {kUnordered});
  expect_sampled(large(kStreamed, kCooperative), Bug::kProducerParity, {kOverwritten});
  expect_sampled(large(kResident, kPingPong, Exchange::kTags), Bug::kTornEntry, {kStale});
  expect_sampled(large(kStreamed, kPingPong, Exchange::kTags), Bug::kReadWaitOnly, {kUnordered});
  for (const Schedule schedule : {kCooperative, kPingPong}) {
    Case kept = large(kKept, schedule, Exchange::kTags);
    for (Launch& launch : kept.launches) launch.kernel.ctas = schedule == kPingPong ? 2 : 5;  // three tiles of an image
    expect_sampled(kept, Bug::kWaitForOwnImage, {kDeadlock});
    expect_sampled(kept, Bug::kColumnsOfAnotherImage, {kWrongStage});
    expect_sampled(kept, Bug::kColumnsOverwritten, {kOverwritten});
    expect_sampled(kept, Bug::kReadWaitOnly, {kUnordered});
    expect_sampled(kept, Bug::kEpochNotAdvanced, {kStale});
  }
  Case ordered = large(kResident, kPingPong);
  for (Launch& launch : ordered.launches) launch.kernel.ordered_store = true;
  expect_sampled(ordered, Bug::kStoreOrderBeforePublish, {kDeadlock});
  Case straddling = large(kResident, kCooperative);
  for (Launch& launch : straddling.launches) {
    launch.kernel.segment_slots = 1;
    launch.kernel.rows = 47, launch.kernel.tile_rows = 4;
  }
  expect_sampled(straddling, Bug::kStraddlingTile, {kDeadlock});
}

TEST(Random, FindsASharedWorkspace) {
  Case c = large(kResident, kPingPong);
  c.processors = 24;
  c.launches[1].stream = c.launches[1].output = c.launches[1].workspace = 1;
  EXPECT_FALSE(explore_random(build(c), 1, 20).failure);
  c.launches[1].workspace = 0;
  EXPECT_TRUE(explore_random(build(c), 1, 20).failure);
}

TEST(Random, ASeedRepeatsItsSchedule) {
  Case c = large(kResident, kCooperative);
  for (Launch& launch : c.launches) launch.kernel.bug = Bug::kNoRelease;
  const Report first = explore_random(build(c), 7, 20), again = explore_random(build(c), 7, 20);
  ASSERT_TRUE(first.failure);
  EXPECT_EQ(first.trace, again.trace);
  EXPECT_EQ(first.steps, again.steps);
}

}  // namespace
}  // namespace unisono::simulator
