// Scheduling: which actions are possible, the life of CTAs and launches. Steps are in steps.cpp.
#include "machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace unisono::simulator {

Machine::Machine(const System& system_) : system(system_) {
  words = (bit_of_launch(int(system.launches.size())) + 63) / 64;
  int barriers = 0, buffers = 0;
  for (const CtaSpec& cta : system.ctas) {
    first_barrier.push_back(barriers);
    first_buffer.push_back(buffers);
    barriers += int(cta.barriers.size());
    buffers += cta.buffers;
  }
}

State Machine::initial() const {
  State s;
  s.agents.resize(system.agents.size());
  for (const CtaSpec& cta : system.ctas) {
    for (const BarrierSpec& b : cta.barriers) s.barriers.push_back({0, uint8_t(b.arrivals), 0});
    s.buffers.resize(s.buffers.size() + cta.buffers);
  }
  s.locations.resize(system.locations.size());
  s.aware.assign(system.locations.size() * words, ~uint64_t(0));  // what lay there before, all know
  for (const Atomic& a : system.atomics) s.atomics.push_back(a.initial);
  s.ctas.assign(system.ctas.size(), 0);
  s.launches.assign(system.launches.size(), 0);
  return s;
}

uint64_t State::fingerprint() const {
  uint64_t h = 0x9e3779b97f4a7c15;
  auto word = [&](uint64_t w) {
    h = (h ^ w) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  };
  auto mix = [&](const auto& items) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(items.data());
    const size_t size = items.size() * sizeof(items[0]), whole = size / 8 * 8;
    uint64_t w = 0;
    for (size_t i = 0; i < whole; i += 8) std::memcpy(&w, bytes + i, 8), word(w);
    w = 0;
    if (size > whole) std::memcpy(&w, bytes + whole, size - whole);
    word(w ^ uint64_t(size) << 40);
  };
  mix(agents), mix(barriers), mix(buffers), mix(locations), mix(atomics), mix(aware), mix(deliveries), mix(ctas),
      mix(launches);
  return h;
}

bool Machine::can_start(const State& s, int launch) const {
  const LaunchSpec& l = system.launches[launch];
  auto ctas = [&](int of, int state) {
    const LaunchSpec& spec = system.launches[of];
    return std::count(s.ctas.begin() + spec.first_cta, s.ctas.begin() + spec.first_cta + spec.ctas, state);
  };
  if (ctas(launch, 0) == 0) return false;
  if (l.previous >= 0 && !s.launches[l.previous] && !(l.programmatic && ctas(l.previous, 0) == 0)) return false;
  const int busy = int(std::count(s.ctas.begin(), s.ctas.end(), 1));
  if (l.cooperative && l.ctas > system.processors) return true;  // to be refused
  return busy + (l.cooperative ? l.ctas : l.cluster_ctas) <= system.processors;
}

// A cooperative launch starts whole; another one cluster by cluster.
std::optional<Failure> Machine::start(State& s, int launch) const {
  const LaunchSpec& l = system.launches[launch];
  if (l.cooperative && l.ctas > system.processors)
    return Failure{FailureKind::kRefused,
                   fmt::format("launch {} asks for {} blocks at once; {} fit", launch, l.ctas, system.processors)};
  int cta = l.first_cta;
  while (s.ctas[cta] != 0) ++cta;
  const int end = l.cooperative ? l.first_cta + l.ctas : cta + l.cluster_ctas;
  for (; cta < end; ++cta) {
    s.ctas[cta] = 1;
    const CtaSpec& spec = system.ctas[cta];
    for (int a = spec.first_agent; a < spec.first_agent + spec.agents; ++a)
      if (l.previous >= 0 && s.launches[l.previous]) pass_on(s, bit_of_launch(l.previous), a);
  }
  for (cta = l.first_cta; cta < end; ++cta)
    if (s.ctas[cta] == 1)
      if (auto failure = cta_done(s, cta)) return failure;
  return {};
}

bool Machine::can_step(const State& s, int agent) const {
  const AgentSpec& spec = system.agents[agent];
  if (s.ctas[spec.cta] != 1 || done(s, agent)) return false;
  const Instruction& i = next(s, agent);
  const AgentState& a = s.agents[agent];
  switch (i.op) {
    case Op::kWaitBarrier: return s.barriers[first_barrier[spec.cta] + i.object].parity != i.value;
    case Op::kWaitFlag:
    case Op::kWaitEntry: return s.atomics[i.object] == a.epoch + 1;
    case Op::kWaitCount: return s.atomics[i.object] >= i.value;
    case Op::kWaitGrid: {
      const int previous = system.launches[spec.launch].previous;
      return previous < 0 || s.launches[previous];
    }
    case Op::kClusterSync: return cluster_is_done(s, agent, i.value != 0);
    case Op::kDrain: {
      const int tile = next_tile(s, agent, int(i.value));
      return tile == int(i.value) || flags_up(s, agent, tile);
    }
    default: return true;
  }
}

// The first tile below `limit` whose second pass is this agent's and still to come; `limit` if there is none.
int Machine::next_tile(const State& s, int agent, int limit) const {
  int tile = s.agents[agent].pending;
  while (tile < limit && !(s.agents[agent].owned >> tile & 1)) ++tile;
  return std::min(tile, limit);
}

bool Machine::flags_up(const State& s, int agent, int tile) const {
  const auto& flags = system.agents[agent].passes[tile].flags;
  return std::all_of(flags.begin(), flags.end(),
                     [&](int flag) { return s.atomics[flag] == s.agents[agent].epoch + 1; });
}

bool Machine::cluster_is_done(const State& s, int agent, bool whole_cluster) const {
  const int own = system.agents[agent].cta;
  const LaunchSpec& l = system.launches[system.agents[agent].launch];
  const int first = whole_cluster ? system.ctas[own].first_of_cluster : own;
  for (int cta = first; cta < first + (whole_cluster ? l.cluster_ctas : 1); ++cta) {
    const CtaSpec& spec = system.ctas[cta];
    for (int a = spec.first_agent; a < spec.first_agent + spec.agents; ++a) {
      const AgentSpec& other = system.agents[a];
      const bool arrived = other.last_out && s.agents[a].step >= other.sync && s.agents[a].step < other.end;
      if (!done(s, a) && !arrived) return false;
    }
  }
  // A barrier of the cluster also waits for arrivals that are on their way.
  return !whole_cluster || std::none_of(s.deliveries.begin(), s.deliveries.end(), [&](const Delivery& d) {
    return d.buffer == kSignal && d.cta >= first && d.cta < first + l.cluster_ctas;
  });
}

void Machine::enabled(const State& s, std::vector<Action>& actions) const {
  actions.clear();
  for (size_t d = 0; d < s.deliveries.size(); ++d) actions.push_back({Action::Kind::kDeliver, 0, uint16_t(d)});
  for (size_t l = 0; l < system.launches.size(); ++l)
    if (can_start(s, int(l))) actions.push_back({Action::Kind::kStart, 0, uint16_t(l)});
  for (size_t a = 0; a < system.agents.size(); ++a) {
    if (!can_step(s, int(a))) continue;
    actions.push_back({Action::Kind::kStep, 0, uint16_t(a)});
    const Instruction& i = next(s, int(a));
    if (i.op != Op::kPoll) continue;
    const int tile = next_tile(s, int(a), int(i.value));
    if (tile < int(i.value) && flags_up(s, int(a), tile)) actions.push_back({Action::Kind::kStep, 1, uint16_t(a)});
  }
}

bool Machine::is_private(const State& s, Action action) const {
  if (action.kind != Action::Kind::kStep) return false;
  switch (const Instruction& i = next(s, action.index); i.op) {
    case Op::kWrite:
    case Op::kRead:
    case Op::kSkipUnlessLast:
    case Op::kOwn:
    case Op::kReturn:
    case Op::kStage:
    case Op::kStore:
    case Op::kWaitGroup:
    case Op::kWaitGroupRead:
    case Op::kProxyFence:
    case Op::kWaitGrid:
    case Op::kClusterSync: return true;
    case Op::kReadBuffer:  // staging buffers are the agent's own; a load into them that has not landed is a failure
    case Op::kFill: return i.object >= system.ctas[system.agents[action.index].cta].staging;
    case Op::kPoll:
    case Op::kDrain: return next_tile(s, action.index, int(i.value)) == int(i.value);
    default: return false;
  }
}

bool Machine::goes_on_alone(const State& s, Action before) const {
  return before.kind == Action::Kind::kStep && can_step(s, before.index) &&
         is_private(s, {Action::Kind::kStep, 0, before.index});
}

bool Machine::is_of_cta(const State& s, Action action) const {
  if (action.kind == Action::Kind::kDeliver) return true;
  if (action.kind == Action::Kind::kStart) return false;
  const Op op = next(s, action.index).op;
  return op <= Op::kRelease || op == Op::kReadEpoch;
}

std::optional<Failure> Machine::apply(State& s, Action action) const {
  switch (action.kind) {
    case Action::Kind::kDeliver: return deliver(s, action.index);
    case Action::Kind::kStart: return start(s, action.index);
    case Action::Kind::kStep: return step(s, action.index, action.choice);
  }
  return {};
}

bool Machine::ended(const State& s) const {
  return std::all_of(s.launches.begin(), s.launches.end(), [](uint8_t ended) { return ended != 0; });
}

// The CTA leaves its processor once all of its agents are done; the last CTA ends the launch.
std::optional<Failure> Machine::cta_done(State& s, int cta) const {
  const CtaSpec& spec = system.ctas[cta];
  for (int a = spec.first_agent; a < spec.first_agent + spec.agents; ++a)
    if (!done(s, a)) return {};
  s.ctas[cta] = 2;
  const LaunchSpec& l = system.launches[spec.launch];
  if (std::count(s.ctas.begin() + l.first_cta, s.ctas.begin() + l.first_cta + l.ctas, 2) < l.ctas) return {};
  return end_launch(s, spec.launch);
}

// All that the launch wrote, stores by TMA included, is known to whatever follows on the stream.
std::optional<Failure> Machine::end_launch(State& s, int launch) const {
  s.launches[launch] = 1;
  const LaunchSpec& l = system.launches[launch];
  const CtaSpec& last = system.ctas[l.first_cta + l.ctas - 1];
  const int first_agent = system.ctas[l.first_cta].first_agent, end_agent = last.first_agent + last.agents;
  auto is_of_launch = [&](int agent_plus_one) { return agent_plus_one > first_agent && agent_plus_one <= end_agent; };
  for (size_t x = 0; x < s.locations.size(); ++x) {
    LocationState& location = s.locations[x];
    if (is_of_launch(location.writer)) make_aware(s, int(x), bit_of_launch(launch)), location.group = 0;
    if (is_of_launch(location.reader) || location.reader == kManyOf + launch) location.reader = 0;
    for (int a = first_agent; a < end_agent; ++a) {
      if (is_aware(s, int(x), a)) make_aware(s, int(x), bit_of_launch(launch));
      forget(s, int(x), a);
    }
  }
  for (const auto& [location, value] : l.outputs)
    if (s.locations[location].value != value)
      return Failure{FailureKind::kOutput,
                     fmt::format("launch {} has ended and {} holds {}, not {}", launch, system.locations[location],
                                 describe_tag(s.locations[location].value), describe_tag(value))};
  return {};
}

std::optional<Failure> Machine::check_end(const State& s) const {
  for (size_t i = 0; i < s.atomics.size(); ++i)
    if (s.atomics[i] != system.atomics[i].final)
      return Failure{FailureKind::kBookkeeping,
                     fmt::format("after all launches {} is {}, not {}", system.atomics[i].name, s.atomics[i],
                                 system.atomics[i].final)};
  return {};
}

std::string Machine::describe(const State& s, Action action) const {
  switch (action.kind) {
    case Action::Kind::kDeliver: {
      const Delivery& d = s.deliveries[action.index];
      if (d.buffer == kSignal)
        return fmt::format("{}'s arrival at {} of block {} lands", system.agents[d.value].name,
                           system.ctas[d.cta].barriers[d.barrier].name,
                           d.cta - system.launches[system.ctas[d.cta].launch].first_cta);
      const CtaSpec& cta = system.ctas[d.cta];
      return fmt::format("TMA: block {} of the grid, {} <- {}", d.cta - system.launches[cta.launch].first_cta,
                         describe_buffer(cta, d.buffer), describe_content(cta, d.buffer, d.value));
    }
    case Action::Kind::kStart:
      return fmt::format("launch {} starts {}", action.index,
                         system.launches[action.index].cooperative ? "whole" : "a cluster");
    case Action::Kind::kStep: {
      const char* seen = next(s, action.index).op != Op::kPoll ? "" : action.choice ? " (up)" : " (not yet)";
      return fmt::format("{}: {}{}", system.agents[action.index].name,
                         simulator::describe(system, action.index, s.agents[action.index].step), seen);
    }
  }
  return {};
}

std::string Machine::describe_blocked(const State& s) const {
  std::string text;
  for (size_t a = 0; a < system.agents.size(); ++a) {
    if (s.ctas[system.agents[a].cta] == 1 && !done(s, int(a)))
      text += fmt::format("  {} stands at: {}\n", system.agents[a].name,
                          simulator::describe(system, int(a), s.agents[a].step));
  }
  for (size_t l = 0; l < system.launches.size(); ++l) {
    const LaunchSpec& spec = system.launches[l];
    const auto waiting = std::count(s.ctas.begin() + spec.first_cta, s.ctas.begin() + spec.first_cta + spec.ctas, 0);
    if (waiting > 0) text += fmt::format("  launch {}: {} of {} blocks have not started\n", l, waiting, spec.ctas);
  }
  return text;
}

}  // namespace unisono::simulator
