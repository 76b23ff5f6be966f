// What a step does: shared-memory barriers and the ring, atomics, locations and who knows of their values.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "machine.hpp"

namespace unisono::simulator {

std::optional<Failure> Machine::step(State& s, int agent, int choice) const {
  const Instruction i = next(s, agent);
  AgentState& a = s.agents[agent];
  ++a.step;
  Result failure;
  switch (i.op) {
    case Op::kWrite: failure = write(s, agent, i.object, i.value, false); break;
    case Op::kStore: failure = write(s, agent, i.object, i.value, true); break;
    case Op::kRead: failure = read(s, agent, i.object, i.value); break;
    case Op::kSkipUnlessLast:
      if (!a.last) a.step = uint16_t(i.value);
      a.last = 0;
      break;
    case Op::kReadEpoch:
    case Op::kAdd:
    case Op::kSetFlag:
    case Op::kWaitFlag:
    case Op::kExit:
    case Op::kReset:
    case Op::kSetCount:
    case Op::kWaitCount: failure = atomic_step(s, agent, i); break;
    case Op::kWriteEntry: s.locations[i.extra].value = i.value; [[fallthrough]];
    case Op::kWriteTag: s.atomics[i.object] = a.epoch + 1; break;
    case Op::kWaitEntry:
      if (s.locations[i.extra].value != i.value)
        failure = {FailureKind::kStale, fmt::format("{} holds {}, not {}", system.locations[i.extra],
                                                    describe_tag(s.locations[i.extra].value), describe_tag(i.value))};
      break;
    case Op::kOwn: a.owned |= 1u << i.value; break;
    case Op::kPoll:
    case Op::kDrain: pass_step(s, agent, i, choice); break;
    case Op::kReturn: a.step = a.back, a.back = 0, a.later = 0; break;
    case Op::kStage:
      if (a.stores - a.stores_read >= int(i.value))
        failure = {FailureKind::kOverwritten,
                   fmt::format("staging buffer filled while TMA may read it ({} stores, {} known to be read)", a.stores,
                               a.stores_read)};
      break;
    case Op::kWaitGroup:
      a.stores_done = std::max(a.stores_done, uint8_t(std::max(0, a.stores - int(i.value) - a.later)));
      break;
    case Op::kWaitGroupRead:
      a.stores_read = std::max(a.stores_read, uint8_t(std::max(0, a.stores - int(i.value))));
      break;
    case Op::kProxyFence: fence(s, agent); break;
    case Op::kWaitGrid:
      if (const int previous = system.launches[system.agents[agent].launch].previous; previous >= 0)
        pass_on(s, bit_of_launch(previous), agent);
      break;
    case Op::kClusterSync: break;
    default: failure = shared_step(s, agent, i);
  }
  if (failure || !done(s, agent)) return failure;
  if (a.stores_read < a.stores)
    return Failure{FailureKind::kOverwritten, "shared memory is given up while TMA may read it"};
  return cta_done(s, system.agents[agent].cta);
}

std::optional<Failure> Machine::shared_step(State& s, int agent, const Instruction& i) const {
  const int cta = system.agents[agent].cta;
  const CtaSpec& spec = system.ctas[cta];
  switch (i.op) {
    case Op::kExpect: return arrive(s, cta, i.object, 1, int(i.value));
    case Op::kLoad: return load(s, agent, i);
    case Op::kReadBuffer: {
      const BufferState& buffer = s.buffers[first_buffer[cta] + i.object];
      if (buffer.value == i.value && !buffer.filling) return {};
      return Failure{FailureKind::kWrongStage, fmt::format("{} holds {}{}, not {}", describe_buffer(spec, i.object),
                                                           describe_content(spec, i.object, buffer.value),
                                                           buffer.filling ? " and is being filled" : "",
                                                           describe_content(spec, i.object, i.value))};
    }
    case Op::kFill: {
      BufferState& buffer = s.buffers[first_buffer[cta] + i.object];
      if (buffer.readers > 0 || buffer.filling)
        return Failure{
            FailureKind::kOverwritten,
            fmt::format("{} is written to {}, where {} is still to be read", describe_content(spec, i.object, i.value),
                        describe_buffer(spec, i.object), describe_content(spec, i.object, buffer.value))};
      buffer = {uint16_t(i.value), uint8_t(i.object < spec.staging ? spec.readers : 0), 0};
      return {};
    }
    case Op::kRelease:
      for (int p = 0; p < spec.parts; ++p) {
        uint8_t& readers = s.buffers[first_buffer[cta] + i.extra * spec.parts + p].readers;
        if (readers > 0) --readers;
      }
      [[fallthrough]];
    case Op::kArrive: return signal(s, agent, i);
    default: return {};
  }
}

// An arrival at another CTA's barrier is on its way for a while; those of one warpgroup at several CTAs land in any
// order.
std::optional<Failure> Machine::signal(State& s, int agent, const Instruction& i) const {
  const int own = system.agents[agent].cta, first = system.ctas[own].first_of_cluster;
  for (int rank = 0; rank < 16; ++rank) {
    if (!(i.mask >> rank & 1)) continue;
    if (first + rank != own)
      post(s, {uint16_t(first + rank), kSignal, i.object, uint16_t(agent)});
    else if (auto failure = arrive(s, own, i.object, 1, 0))
      return failure;
  }
  return {};
}

void Machine::post(State& s, const Delivery& d) const {
  auto key = [](const Delivery& x) { return std::tuple(x.cta, x.buffer, x.barrier, x.value); };
  s.deliveries.insert(std::upper_bound(s.deliveries.begin(), s.deliveries.end(), d,
                                       [&](const Delivery& x, const Delivery& y) { return key(x) < key(y); }),
                      d);
}

std::optional<Failure> Machine::arrive(State& s, int cta, int barrier, int arrivals, int deliveries) const {
  const BarrierSpec& spec = system.ctas[cta].barriers[barrier];
  if (s.ctas[cta] != 1)
    return Failure{FailureKind::kAfterExit, fmt::format("{} of a block that has left is signalled", spec.name)};
  BarrierState& b = s.barriers[first_barrier[cta] + barrier];
  if (b.pending < arrivals)
    return Failure{FailureKind::kOverwritten,
                   fmt::format("{} gets more arrivals in a phase than it counts", spec.name)};
  b.pending = uint8_t(b.pending - arrivals);
  b.deliveries = int8_t(b.deliveries + deliveries);
  if (b.pending == 0 && b.deliveries == 0) b.parity ^= 1, b.pending = uint8_t(spec.arrivals);
  return {};
}

std::optional<Failure> Machine::load(State& s, int agent, const Instruction& i) const {
  const CtaSpec& spec = system.ctas[system.agents[agent].cta];
  const int first = spec.first_of_cluster;
  for (int rank = 0; rank < 16; ++rank) {
    if (!(i.mask >> rank & 1)) continue;
    BufferState& buffer = s.buffers[first_buffer[first + rank] + i.object];
    if (buffer.readers > 0 || buffer.filling)
      return Failure{FailureKind::kOverwritten,
                     fmt::format("{} is loaded into {} of block {} of the cluster, where {} is still to be read",
                                 describe_content(spec, i.object, i.value), describe_buffer(spec, i.object), rank,
                                 describe_content(spec, i.object, buffer.value))};
    buffer.filling = 1;
    post(s, {uint16_t(first + rank), i.object, i.extra, uint16_t(i.value)});
  }
  return {};
}

std::optional<Failure> Machine::deliver(State& s, size_t index) const {
  const Delivery d = s.deliveries[index];
  s.deliveries.erase(s.deliveries.begin() + std::ptrdiff_t(index));
  if (d.buffer == kSignal) return arrive(s, d.cta, d.barrier, 1, 0);
  const CtaSpec& spec = system.ctas[d.cta];
  s.buffers[first_buffer[d.cta] + d.buffer] = {d.value, uint8_t(d.buffer < spec.staging ? spec.readers : 0), 0};
  return arrive(s, d.cta, d.barrier, 0, -1);
}

std::optional<Failure> Machine::atomic_step(State& s, int agent, const Instruction& i) const {
  AgentState& a = s.agents[agent];
  uint32_t& value = s.atomics[i.object];
  const int bit = bit_of_atomic(i.object);
  switch (i.op) {
    case Op::kReadEpoch: a.epoch = value / i.value; break;
    case Op::kAdd: a.last = value + 1 == (a.epoch + 1) * i.value; [[fallthrough]];
    case Op::kExit: value = (value + 1) % (i.value * system.epochs); break;
    case Op::kSetFlag:
      value = a.epoch + 1;
      forget_all(s, bit);
      break;
    case Op::kReset: value = 0; break;
    case Op::kSetCount:
      value = i.value;
      forget_all(s, bit);
      break;
    default: break;  // kWaitFlag, kWaitCount
  }
  if (acquires(i.order)) pass_on(s, bit, agent);
  if (releases(i.order)) pass_on(s, agent, bit);
  return {};
}

// Enters the second pass of the agent's next tile, to come back to this step; goes on if there is none.
void Machine::pass_step(State& s, int agent, const Instruction& i, int choice) const {
  AgentState& a = s.agents[agent];
  const bool drain = i.op == Op::kDrain;
  const int tile = next_tile(s, agent, int(i.value));
  if (tile >= int(i.value) || (!drain && !choice)) return;
  const SecondPass& pass = system.agents[agent].passes[tile];
  if (acquires(i.order))
    for (int flag : pass.flags) pass_on(s, bit_of_atomic(flag), agent);
  a.owned &= ~(1u << tile);
  a.pending = uint8_t(tile + 1);
  a.later = uint8_t(i.extra);
  a.back = drain ? uint16_t(a.step - 1) : a.step;  // of two polls in a row the second follows
  a.step = uint16_t(pass.entry);
}

// A plain store ends the releases before it.
void Machine::forget_all(State& s, int bit) const {
  for (size_t x = 0; x < s.locations.size(); ++x) forget(s, int(x), bit);
}

void Machine::pass_on(State& s, int from, int to) const {
  for (size_t x = 0; x < s.locations.size(); ++x)
    if (is_aware(s, int(x), from)) make_aware(s, int(x), to);
}

std::optional<Failure> Machine::write(State& s, int agent, int location, uint32_t value, bool by_tma) const {
  LocationState& l = s.locations[location];
  const std::string& name = system.locations[location];
  AgentState& a = s.agents[agent];
  if (l.value == value)
    return Failure{FailureKind::kOutput, fmt::format("{} is written twice with {}", name, describe_tag(value))};
  if (!is_aware(s, location, agent))
    return Failure{FailureKind::kUnordered, fmt::format("{} is overwritten while {} may still be on its way there",
                                                        name, describe_tag(l.value))};
  if (l.reader != 0 && l.reader != agent + 1)
    return Failure{FailureKind::kUnordered,
                   fmt::format("{} is overwritten while another may still read {}", name, describe_tag(l.value))};
  std::fill_n(s.aware.begin() + location * words, words, 0);
  l = {value, uint16_t(agent + 1), 0, 0, {}};
  if (by_tma)
    l.group = ++a.stores;
  else
    make_aware(s, location, agent);
  return {};
}

std::optional<Failure> Machine::read(State& s, int agent, int location, uint32_t value) const {
  LocationState& l = s.locations[location];
  if (l.value != value)
    return Failure{FailureKind::kStale, fmt::format("{} holds {}, not {}", system.locations[location],
                                                    describe_tag(l.value), describe_tag(value))};
  if (!is_aware(s, location, agent))
    return Failure{FailureKind::kUnordered,
                   fmt::format("{}: nothing makes {} visible to {}", system.locations[location], describe_tag(value),
                               system.agents[agent].name)};
  note_reader(l, agent);
  return {};
}

void Machine::note_reader(LocationState& l, int agent) const {
  const int launch = system.agents[agent].launch;
  if (l.reader == 0) l.reader = uint16_t(agent + 1);
  if (l.reader == agent + 1 || l.reader == kManyOf + launch) return;
  const bool same_launch = l.reader < kManyOf && system.agents[l.reader - 1].launch == launch;
  l.reader = uint16_t(same_launch ? kManyOf + launch : kManyOfSeveral);
}

// The agent's own stores that it has waited for become visible to it, and with its next release to others.
void Machine::fence(State& s, int agent) const {
  for (size_t x = 0; x < s.locations.size(); ++x) {
    LocationState& l = s.locations[x];
    if (l.writer != agent + 1 || l.group == 0 || l.group > s.agents[agent].stores_done) continue;
    l.group = 0;
    make_aware(s, int(x), agent);
  }
}

}  // namespace unisono::simulator
