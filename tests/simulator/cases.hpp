// Cases and expectations shared by the simulator's tests.
#pragma once
#include <gtest/gtest.h>

#include "explorer.hpp"

namespace unisono::simulator {

// The largest cases run only without sanitizers, which make them five times slower and see nothing new in them.
#ifdef UNISONO_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr auto kResident = Mode::kResident, kStreamed = Mode::kStreamed, kKept = Mode::kKept;
constexpr auto kCooperative = Schedule::kCooperative, kPingPong = Schedule::kPingPong;

// An image of `tiles` tiles of one row each.
inline Kernel kernel_of(Mode mode, Schedule schedule, int ctas, int images, int tiles) {
  Kernel k;
  k.mode = mode, k.schedule = schedule, k.ctas = ctas, k.images = images, k.rows = tiles;
  k.warpgroups = schedule == kPingPong ? 2 : 1;
  return k;
}

// The same launch `launches` times on one stream: back to back, or replays of a graph.
inline Case on_one_stream(const Kernel& kernel, int launches = 1) {
  Case c;
  c.processors = kernel.ctas;
  c.launches.assign(launches, Launch{kernel});
  return c;
}

// Two streams, each with its own workspace and output; `processors` CTAs fit.
inline Case on_two_streams(const Kernel& kernel, int processors) {
  Case c = on_one_stream(kernel, 2);
  c.processors = processors;
  c.launches[1].stream = c.launches[1].workspace = c.launches[1].output = 1;
  return c;
}

inline void expect_passes(const Case& c, Reduction reduction = Reduction::kCta) {
  const Report report = explore_all(build(c), {.reduction = reduction});
  EXPECT_FALSE(report.failure) << to_string(c) << '\n' << report.trace;
  EXPECT_TRUE(report.complete) << to_string(c) << "\nmore than " << report.states << " states";
  EXPECT_GT(report.schedules, 0u) << to_string(c);
}

inline void expect_fails(const Case& c, FailureKind kind, Reduction reduction = Reduction::kCta) {
  const Report report = explore_all(build(c), {.reduction = reduction});
  ASSERT_TRUE(report.failure) << to_string(c) << "\nexpected: " << to_string(kind) << ", explored " << report.states
                              << " states";
  EXPECT_EQ(report.failure->kind, kind) << to_string(c) << '\n' << report.trace;
}

// Every entry and flag that a launch waits for is overwritten in each: two epochs, in turn, are enough, and one is not.
inline void expect_needs_two_epochs(const Kernel& kernel, FailureKind of_one = FailureKind::kStale) {
  Case c = on_one_stream(kernel, 4);
  c.epochs = 2;
  for (c.first_epoch = 0; c.first_epoch < 2; ++c.first_epoch) expect_passes(c);
  c.first_epoch = 0, c.epochs = 1;
  expect_fails(c, of_one);
}

// The case passes as it is; with the bug in its launches the same exploration finds the failure.
inline void expect_catches(Bug bug, FailureKind kind, Case c, Reduction reduction = Reduction::kCta) {
  expect_passes(c, reduction);
  for (Launch& launch : c.launches) launch.kernel.bug = bug;
  expect_fails(c, kind, reduction);
}

// The same, with all kinds of failures that the bug causes.
inline std::set<FailureKind> failures(Case c, Bug bug, Reduction reduction = Reduction::kCta) {
  expect_passes(c, reduction);
  for (Launch& launch : c.launches) launch.kernel.bug = bug;
  return explore_all(build(c), {.reduction = reduction, .to_the_end = true}).kinds;
}

// Less reduction explores more, and comes to the same final states.
inline void expect_reductions_agree(const Case& c) {
  const Report all = explore_all(build(c), {.reduction = Reduction::kNone}),
               fewer = explore_all(build(c), {.reduction = Reduction::kPrivate}),
               fewest = explore_all(build(c), {.reduction = Reduction::kCta});
  ASSERT_TRUE(all.complete && !all.failure && !fewer.failure && !fewest.failure) << to_string(c);
  EXPECT_EQ(all.ends, fewer.ends) << to_string(c);
  EXPECT_EQ(all.ends, fewest.ends) << to_string(c);
  EXPECT_GT(all.states, 4 * fewer.states) << to_string(c);
  EXPECT_GE(fewer.states, fewest.states) << to_string(c);
}

}  // namespace unisono::simulator
