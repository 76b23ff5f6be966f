// The memory model by itself: small programs whose outcome the rules of acquire, release and TMA settle.
#include "cases.hpp"

namespace unisono::simulator {
namespace {

using Program = std::vector<Instruction>;
constexpr uint16_t kX = 0, kY = 1;         // locations
constexpr uint16_t kFlag = 0, kCount = 1;  // atomics
constexpr uint32_t kValue = 1 << 20;

Instruction write(uint16_t x = kX) { return {Op::kWrite, Order::kRelaxed, x, 1, 0, kValue}; }
Instruction read(uint16_t x = kX, uint32_t value = kValue) { return {Op::kRead, Order::kRelaxed, x, 1, 0, value}; }
Instruction set(Order order) { return {Op::kSetFlag, order, kFlag}; }
Instruction wait(Order order) { return {Op::kWaitFlag, order, kFlag}; }
Instruction add(Order order, uint32_t arrivals) { return {Op::kAdd, order, kCount, 1, 0, arrivals}; }
Instruction unless_last(uint32_t to) { return {Op::kSkipUnlessLast, Order::kRelaxed, 0, 1, 0, to}; }
Instruction store() { return {Op::kStore, Order::kRelaxed, kX, 1, 0, kValue}; }
Instruction simple(Op op) { return {op}; }

// One agent a CTA, all CTAs of one launch; or one launch each, one after the other.
System system_of(const std::vector<Program>& programs, bool in_sequence = false) {
  System system;
  system.locations = {"x", "y"};
  system.atomics = {{"flag", 0, 0}, {"count", 0, 0}};
  system.processors = int(programs.size());
  for (size_t i = 0; i < programs.size(); ++i) {
    const int launch = in_sequence ? int(i) : 0;
    if (i == 0 || in_sequence)
      system.launches.push_back({0, launch - 1, int(i), in_sequence ? 1 : int(programs.size()), 1, true, false, {}});
    system.ctas.push_back({launch, int(i), 0, int(i), 1, {}, 0, 1, 1});
    AgentSpec agent;
    agent.name = "agent " + std::to_string(i);
    agent.launch = launch, agent.cta = int(i), agent.end = int(programs[i].size());
    agent.code = programs[i];
    agent.code.push_back({Op::kReturn});
    system.agents.push_back(agent);
    for (const Instruction& step : programs[i]) {
      if (step.op == Op::kAdd) ++system.atomics[kCount].final;
      if (step.op == Op::kSetFlag) system.atomics[kFlag].final = 1;
    }
  }
  return system;
}

constexpr Reduction kReductions[] = {Reduction::kNone, Reduction::kPrivate};

void expect_passes(const System& system) {
  for (const Reduction reduction : kReductions) {
    const Report report = explore_all(system, {.reduction = reduction});
    EXPECT_FALSE(report.failure) << report.trace;
  }
}

void expect_fails(const System& system, FailureKind kind) {
  for (const Reduction reduction : kReductions) {
    const Report report = explore_all(system, {.reduction = reduction});
    ASSERT_TRUE(report.failure) << "expected: " << to_string(kind);
    EXPECT_EQ(report.failure->kind, kind) << report.trace;
  }
}

TEST(Memory, MessageIsSeenWithReleaseAndAcquire) {
  expect_passes(system_of({{write(), set(Order::kRelease)}, {wait(Order::kAcquire), read()}}));
}

TEST(Memory, MessageNeedsBoth) {
  expect_fails(system_of({{write(), set(Order::kRelaxed)}, {wait(Order::kAcquire), read()}}), FailureKind::kUnordered);
  expect_fails(system_of({{write(), set(Order::kRelease)}, {wait(Order::kRelaxed), read()}}), FailureKind::kUnordered);
}

TEST(Memory, ReleaseCoversOnlyWhatPrecedesIt) {
  const Report report = explore_all(system_of({{set(Order::kRelease), write()}, {wait(Order::kAcquire), read()}}),
                                    {.reduction = Reduction::kNone});
  ASSERT_TRUE(report.failure);
}

TEST(Memory, OrderIsCumulative) {  // the reader never meets the writer
  const Program writer = {write(), add(Order::kRelease, 2)}, reader = {wait(Order::kAcquire), read(), read(kY)};
  const auto middle = [](Order order) { return Program{write(kY), add(order, 2), set(Order::kRelease)}; };
  const auto writer_first = [&](Order order) {  // only schedules in which the middle's addition is the last count
    Program p = middle(order);
    p.insert(p.begin() + 2, unless_last(4));
    p[3] = set(Order::kRelease);
    return p;
  };
  // Whichever of the two arrives last raises the flag.
  const Program writer_too = {write(), add(Order::kAcquireRelease, 2), unless_last(4), set(Order::kRelease)};
  expect_passes(system_of({writer_too, writer_first(Order::kAcquireRelease), reader}));
  expect_fails(system_of({writer_too, writer_first(Order::kRelease), reader}), FailureKind::kUnordered);
  expect_fails(system_of({writer_too, writer_first(Order::kAcquire), reader}), FailureKind::kUnordered);
}

TEST(Memory, ReadModifyWritesContinueARelease) {
  const Program reader = {add(Order::kAcquire, 3), unless_last(3), read()};
  const Program bystander = {add(Order::kRelaxed, 3)};
  expect_passes(system_of({{write(), add(Order::kRelease, 3)}, bystander, reader}));
}

TEST(Memory, UnorderedReadIsFoundThoughTheValueIsRight) {
  expect_fails(system_of({{write()}, {add(Order::kAcquire, 1), unless_last(3), read()}}), FailureKind::kUnordered);
}

TEST(Memory, OverwritingWhatAnotherMayStillReadIsFound) {
  for (const Reduction reduction : kReductions)
    EXPECT_TRUE(explore_all(system_of({{read(kX, 0)}, {write()}}), {.reduction = reduction}).failure);
}

TEST(Memory, OwnStoreByTmaNeedsFullWaitAndFence) {
  const auto full = simple(Op::kWaitGroup), of_reads = simple(Op::kWaitGroupRead), fence = simple(Op::kProxyFence);
  expect_passes(system_of({{store(), full, of_reads, fence, read()}}));
  expect_fails(system_of({{store(), of_reads, fence, read()}}), FailureKind::kUnordered);
  expect_fails(system_of({{store(), full, of_reads, read()}}), FailureKind::kUnordered);
  expect_fails(system_of({{store(), fence, full, of_reads, read()}}), FailureKind::kUnordered);
}

TEST(Memory, StoreByTmaIsPublishedAfterItsFence) {
  const auto full = simple(Op::kWaitGroup), of_reads = simple(Op::kWaitGroupRead), fence = simple(Op::kProxyFence);
  const Program reader = {wait(Order::kAcquire), read()};
  expect_passes(system_of({{store(), full, of_reads, fence, set(Order::kRelease)}, reader}));
  expect_fails(system_of({{store(), full, of_reads, set(Order::kRelease), fence}, reader}), FailureKind::kUnordered);
}

TEST(Memory, SharedMemoryOutlivesTmaReads) { expect_fails(system_of({{store()}}), FailureKind::kOverwritten); }

TEST(Memory, TheEndOfALaunchOrdersEverything) {
  expect_passes(system_of({{store(), simple(Op::kWaitGroupRead)}, {read()}}, true));
  expect_passes(system_of({{read(kX, 0)}, {write()}}, true));
}

TEST(Memory, ATraceNamesTheStepsAndWhereEverybodyStands) {
  const Report report = explore_all(system_of({{write()}, {wait(Order::kAcquire), read()}}));
  ASSERT_TRUE(report.failure);
  EXPECT_EQ(report.failure->kind, FailureKind::kDeadlock);
  EXPECT_NE(report.trace.find("agent 0: x <- "), std::string::npos) << report.trace;
  EXPECT_NE(report.trace.find("agent 1 stands at: waits for flag (acquire)"), std::string::npos) << report.trace;
}

}  // namespace
}  // namespace unisono::simulator
