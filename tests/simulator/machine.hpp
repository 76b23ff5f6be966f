// Runs a system step by step. All nondeterminism lies in the choice among enabled actions.
#pragma once
#include <optional>
#include <type_traits>

#include "system.hpp"

namespace unisono::simulator {

enum class FailureKind {
  kDeadlock,     // nothing can happen and a launch has not ended
  kStale,        // a location holds another value than the one to be read: too early, or overwritten
  kUnordered,    // the right value, but nothing makes it visible to this reader; or a write that races
  kWrongStage,   // a buffer does not hold what is to be used: a k-block of the ring, an image's columns, a staged tile
  kOverwritten,  // a buffer is filled while somebody still reads it
  kOutput,       // an output is not written exactly once with its final value
  kBookkeeping,  // counters, flags or epoch are wrong after the last launch
  kAfterExit,    // a CTA is signalled, or delivered to, after it has left
  kRefused,      // a cooperative launch that does not fit
};
std::string to_string(FailureKind kind);

struct Failure {
  FailureKind kind;
  std::string text;
};

struct AgentState {
  uint32_t epoch = 0;
  uint32_t owned = 0;                                    // bit i: stores its tile i, the second pass is still to come
  uint16_t step = 0, back = 0;                           // back: step to return to from a second pass
  uint8_t last = 0, pending = 0, later = 0;              // pending: first tile whose second pass is still to come
  uint8_t stores = 0, stores_read = 0, stores_done = 0;  // groups issued; known to be read; known to be written
  uint8_t zero[2] = {};
};

struct BarrierState {
  uint8_t parity = 0, pending = 0;  // of the phase that is not complete; arrivals that it lacks
  int8_t deliveries = 0;            // that it lacks
};

struct BufferState {
  uint16_t value = 0;
  uint8_t readers = 0, filling = 0;  // readers: warpgroups that have not read it yet
};

// On its way: a k-block to a buffer, or an arrival at another CTA's barrier (`buffer` kSignal, `value` its agent).
struct Delivery {
  uint16_t cta, buffer, barrier, value;
};
constexpr uint16_t kSignal = 0xffff;

// Who knows of a location's last write is in State::aware: a bit for every agent, atomic and launch. Releases copy
// the agent's bits to the atomic, acquires copy them back: the happens-before relation, seen from the writes.
struct LocationState {
  uint32_t value = 0;
  uint16_t writer = 0, reader = 0;  // agent + 1; 0: none. reader: since the write; kManyOf + launch if several
  uint8_t group = 0;  // of the writer's stores: not visible to itself before it waits; 0: an ordinary write
  uint8_t zero[3] = {};
};

constexpr int kManyOf = 0x8000, kManyOfSeveral = 0xffff;  // LocationState::reader

struct State {
  std::vector<AgentState> agents;
  std::vector<BarrierState> barriers;
  std::vector<BufferState> buffers;
  std::vector<LocationState> locations;
  std::vector<uint32_t> atomics;
  std::vector<uint64_t> aware;  // (locations, words)
  std::vector<Delivery> deliveries;
  std::vector<uint8_t> ctas;      // 0: waits for a processor, 1: runs, 2: has left
  std::vector<uint8_t> launches;  // 1: has ended

  uint64_t fingerprint() const;
};
static_assert(std::has_unique_object_representations_v<AgentState> &&
              std::has_unique_object_representations_v<LocationState> &&
              std::has_unique_object_representations_v<BarrierState> &&
              std::has_unique_object_representations_v<BufferState> &&
              std::has_unique_object_representations_v<Delivery>);

struct Action {
  enum class Kind : uint8_t { kStep, kDeliver, kStart } kind;
  uint8_t choice;  // of a poll: 0 looks like not yet, 1 sees the flags
  uint16_t index;  // agent, delivery, launch
};

class Machine {
 public:
  explicit Machine(const System& system);

  State initial() const;
  void enabled(const State& s, std::vector<Action>& actions) const;
  std::optional<Failure> apply(State& s, Action action) const;
  bool ended(const State& s) const;
  std::optional<Failure> check_end(const State& s) const;  // bookkeeping after the last launch
  std::string describe(const State& s, Action action) const;
  std::string describe_blocked(const State& s) const;

  // The agent's next step touches nothing that another agent's step may read or change, races excepted, and
  // races are found in whatever order the steps are taken.
  bool is_private(const State& s, Action action) const;
  // Whether the agent of the action before can go on at once with a private step.
  bool goes_on_alone(const State& s, Action before) const;
  // It touches only the CTA's shared memory; or reads the epoch, which stays the same, whoever has left, until all
  // agents have it.
  bool is_of_cta(const State& s, Action action) const;

 private:
  using Result = std::optional<Failure>;
  const Instruction& next(const State& s, int agent) const { return system.agents[agent].code[s.agents[agent].step]; }
  bool done(const State& s, int agent) const { return s.agents[agent].step == system.agents[agent].end; }
  bool can_step(const State& s, int agent) const;
  bool can_start(const State& s, int launch) const;
  bool cluster_is_done(const State& s, int agent, bool whole_cluster) const;
  bool flags_up(const State& s, int agent, int tile) const;
  int next_tile(const State& s, int agent, int limit) const;

  Result step(State& s, int agent, int choice) const;
  Result shared_step(State& s, int agent, const Instruction& i) const;
  Result atomic_step(State& s, int agent, const Instruction& i) const;
  void pass_step(State& s, int agent, const Instruction& i, int choice) const;
  Result start(State& s, int launch) const;
  Result deliver(State& s, size_t index) const;
  Result cta_done(State& s, int cta) const;
  Result end_launch(State& s, int launch) const;
  Result arrive(State& s, int cta, int barrier, int arrivals, int deliveries) const;
  Result signal(State& s, int agent, const Instruction& i) const;
  void post(State& s, const Delivery& d) const;
  Result load(State& s, int agent, const Instruction& i) const;
  Result write(State& s, int agent, int location, uint32_t value, bool by_tma) const;
  Result read(State& s, int agent, int location, uint32_t value) const;
  void note_reader(LocationState& l, int agent) const;
  void fence(State& s, int agent) const;

  int bit_of_atomic(int atomic) const { return int(system.agents.size()) + atomic; }
  int bit_of_launch(int launch) const { return int(system.agents.size() + system.atomics.size()) + launch; }
  bool is_aware(const State& s, int location, int bit) const {
    return s.aware[location * words + bit / 64] >> bit % 64 & 1;
  }
  void make_aware(State& s, int location, int bit) const {
    s.aware[location * words + bit / 64] |= uint64_t(1) << bit % 64;
  }
  void forget(State& s, int location, int bit) const {
    s.aware[location * words + bit / 64] &= ~(uint64_t(1) << bit % 64);
  }
  void forget_all(State& s, int bit) const;
  void pass_on(State& s, int from, int to) const;  // what `from` is aware of, `to` is

  const System& system;
  int words;                                     // of a location's awareness
  std::vector<int> first_barrier, first_buffer;  // by CTA
};

}  // namespace unisono::simulator
