#include "explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace unisono::simulator {

namespace {

// Replays the schedule and writes it down; of a long one the end.
std::string trace_of(const Machine& machine, const std::vector<Action>& schedule, const Failure& failure) {
  constexpr size_t kShown = 120;
  State s = machine.initial();
  std::string text =
      fmt::format("{}: {}\nschedule of {} steps:\n", to_string(failure.kind), failure.text, schedule.size());
  if (schedule.size() > kShown) text += fmt::format("  ({} steps before)\n", schedule.size() - kShown);
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (i + kShown >= schedule.size()) text += fmt::format("  {:4} {}\n", i, machine.describe(s, schedule[i]));
    if (machine.apply(s, schedule[i])) break;
  }
  return text + "then\n" + machine.describe_blocked(s);
}

void fail(Report& report, const Machine& machine, const std::vector<Action>& schedule, const Failure& failure) {
  report.kinds.insert(failure.kind);
  if (report.failure) return;
  report.failure = failure;
  report.trace = trace_of(machine, schedule, failure);
}

// At a state without enabled actions: all is over and right, or something is wrong.
std::optional<Failure> judge_end(const Machine& machine, const State& s) {
  if (!machine.ended(s)) return Failure{FailureKind::kDeadlock, "nothing can happen any more"};
  return machine.check_end(s);
}

void reduce(const Machine& machine, const State& s, Reduction reduction, std::vector<Action>& actions) {
  auto keep_one = [&](auto&& of) {
    const auto it = std::find_if(actions.begin(), actions.end(), of);
    if (it != actions.end()) actions = {*it};
  };
  if (reduction == Reduction::kNone || actions.size() < 2) return;
  keep_one([&](Action a) { return machine.is_private(s, a); });
  if (reduction == Reduction::kCta && actions.size() > 1) keep_one([&](Action a) { return machine.is_of_cta(s, a); });
}

// Fingerprints of the states seen. Two of n states collide with probability n^2 / 2^65: 4e-7 for four million.
class FingerprintSet {
 public:
  bool insert(uint64_t fingerprint) {
    if (2 * ++size > slots.size()) grow();
    if (put(fingerprint)) return true;
    --size;
    return false;
  }

 private:
  bool put(uint64_t fingerprint) {
    fingerprint += fingerprint == 0;  // zero marks a free slot
    size_t i = fingerprint & (slots.size() - 1);
    while (slots[i] != 0 && slots[i] != fingerprint) i = (i + 1) & (slots.size() - 1);
    const bool added = slots[i] == 0;
    slots[i] = fingerprint;
    return added;
  }
  void grow() {
    std::vector<uint64_t> old(2 * slots.size(), 0);
    old.swap(slots);
    for (uint64_t f : old)
      if (f != 0) put(f);
  }

  std::vector<uint64_t> slots = std::vector<uint64_t>(1024, 0);
  size_t size = 0;
};

struct Frame {
  State state;
  std::vector<Action> actions;
  size_t next, trace_size;
};

}  // namespace

Report explore_all(const System& system, Options options) {
  const Machine machine(system);
  Report report;
  FingerprintSet seen;
  std::vector<Action> trace, actions;
  std::vector<Frame> stack;

  // Follows the schedule from `s` as long as there is one way to go on, then pushes the choice if it is new.
  auto advance = [&](State s) {
    for (;;) {
      const bool goes_on =
          options.reduction != Reduction::kNone && !trace.empty() && machine.goes_on_alone(s, trace.back());
      if (goes_on) {
        actions = {{Action::Kind::kStep, 0, trace.back().index}};
      } else {
        machine.enabled(s, actions);
        reduce(machine, s, options.reduction, actions);
      }
      if (actions.size() != 1) break;
      trace.push_back(actions[0]);
      ++report.steps;
      if (const auto failure = machine.apply(s, actions[0])) return fail(report, machine, trace, *failure);
    }
    if (actions.empty()) {
      ++report.schedules;
      report.ends.insert(s.fingerprint());
      if (const auto failure = judge_end(machine, s)) fail(report, machine, trace, *failure);
    } else if (seen.insert(s.fingerprint())) {
      ++report.states;
      stack.push_back({std::move(s), actions, 0, trace.size()});
    }
  };

  advance(machine.initial());
  while (!stack.empty() && (options.to_the_end || !report.failure)) {
    if (report.states >= options.max_states) {
      report.complete = false;
      break;
    }
    Frame& frame = stack.back();
    trace.resize(frame.trace_size);
    if (frame.next == frame.actions.size()) {
      stack.pop_back();
      continue;
    }
    const Action action = frame.actions[frame.next++];
    State s = frame.next == frame.actions.size() ? std::move(frame.state) : frame.state;
    trace.push_back(action);
    ++report.steps;
    if (const auto failure = machine.apply(s, action))
      fail(report, machine, trace, *failure);
    else
      advance(std::move(s));
  }
  return report;
}

Report explore_random(const System& system, uint64_t seed, int schedules) {
  const Machine machine(system);
  Report report;
  for (int run = 0; run < schedules; ++run) {
    std::mt19937_64 random(seed + uint64_t(run));
    // An agent's weight is 1 or, for some, down to 2^-12: it falls behind as a warp that is descheduled or loses
    // arbitration does.
    std::vector<double> weights(system.agents.size(), 1.0);
    for (double& w : weights)
      if (random() % 4 == 0) w = 1.0 / double(1 << random() % 13);
    const double others = 1.0 / double(1 << random() % 8);  // deliveries and starts
    State s = machine.initial();
    std::vector<Action> actions, trace;
    std::vector<double> chances;
    std::optional<Failure> failure;
    while (!failure) {
      machine.enabled(s, actions);
      if (actions.empty()) {
        failure = judge_end(machine, s);
        break;
      }
      chances.clear();
      for (Action a : actions) chances.push_back(a.kind == Action::Kind::kStep ? weights[a.index] : others);
      const Action action = actions[std::discrete_distribution<size_t>(chances.begin(), chances.end())(random)];
      trace.push_back(action);
      ++report.steps;
      failure = machine.apply(s, action);
    }
    ++report.schedules;
    if (!failure) continue;
    fail(report, machine, trace, *failure);
    report.trace = fmt::format("seed {} (run {} of {})\n{}", seed + uint64_t(run), run, schedules, report.trace);
    break;
  }
  return report;
}

}  // namespace unisono::simulator
