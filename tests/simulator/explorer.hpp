// Explores the schedules of a system: all of them, or a random sample.
#pragma once
#include <set>

#include "machine.hpp"

namespace unisono::simulator {

// Which steps are taken at once, without trying the other agents' steps first.
enum class Reduction {
  kNone,
  kPrivate,  // steps that nobody else can influence or notice (docs/one-launch-protocol.md says why that loses nothing)
  kCta,      // also barriers and the ring of a CTA, and the epoch's reading: other cases explore those without it
};

struct Options {
  Reduction reduction = Reduction::kCta;
  uint64_t max_states = 4'000'000;
  bool to_the_end = false;  // go on after a failure, to find what else can happen
};

struct Report {
  std::optional<Failure> failure;  // the first that was found
  std::set<FailureKind> kinds;     // all that were found
  std::string trace;               // the schedule that leads there, and where everybody stands
  uint64_t states = 0;             // distinct states at which there was a choice
  uint64_t steps = 0;
  uint64_t schedules = 0;   // that were followed to their end
  std::set<uint64_t> ends;  // fingerprints of the final states
  bool complete = true;     // false if `max_states` cut an exhaustive exploration short
};

Report explore_all(const System& system, Options options = {});

// `schedules` random ones; some agents are made slow, differently in each. The seed determines all.
Report explore_random(const System& system, uint64_t seed, int schedules);

}  // namespace unisono::simulator
