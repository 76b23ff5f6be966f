// A case, compiled: every agent (a warpgroup, as far as it synchronises) is a list of atomic steps.
#pragma once
#include <map>

#include "kernel.hpp"

namespace unisono::simulator {

enum class Op : uint8_t {
  // Shared memory of a CTA; `mask` names CTAs of the cluster.
  kWaitBarrier,  // barrier `object`, parity `value`
  kArrive,       // at barrier `object` of the CTAs in `mask`
  kExpect,       // arrives at barrier `object` and expects `value` deliveries
  kLoad,         // by TMA: `value` into buffer `object` of the CTAs in `mask`; delivers to barrier `extra`
  kReadBuffer,   // buffer `object` must hold `value`
  kFill,         // `value` into buffer `object`, by this agent's own stores
  kRelease,      // this warpgroup has read the buffers of stage `extra`; arrives at barrier `object` of `mask`
  // Global memory, ordinary accesses: a value is a tag that names its launch and its place.
  kWrite,  // `value` to location `object`
  kRead,   // location `object` must hold `value`, and its writing must have happened before
  // Global memory, atomic accesses.
  kReadEpoch,       // atomic `object` / `value`, rounded down
  kAdd,             // one to atomic `object`; this was the last if it is now (epoch + 1) * `value`; wraps as kExit
  kSkipUnlessLast,  // to step `value`
  kSetFlag,         // atomic `object` = epoch + 1
  kWaitFlag,        // until atomic `object` is epoch + 1
  kExit,            // adds one to atomic `object`, wraps to 0 at `value` * System::epochs
  kReset,           // atomic `object` = 0
  kSetCount,        // atomic `object` = `value`
  kWaitCount,       // until atomic `object` is at least `value`
  // Entries: value and tag in one access, both relaxed. The tag is atomic `object`, the value location `extra`.
  kWriteEntry,  // `value`, tagged epoch + 1
  kWriteTag,    // the tag alone: an entry that is written in two accesses
  kWaitEntry,   // until the tag is epoch + 1; then the value must be `value`
  // Streamed mode's second passes, in the order of the agent's tiles.
  kOwn,     // this agent stores its tile number `value`
  kPoll,    // if the flags of the next of its tiles below number `value` are up (or seem not to be): its second pass
            // which is told that `extra` later groups are pending
  kDrain,   // waits for each remaining tile's flags, then its second pass
  kReturn,  // from a second pass
  // Stores by TMA, one group each.
  kStage,          // fills a staging buffer of `value`
  kStore,          // `value` to location `object`
  kWaitGroup,      // until at most `value` groups, and as many as the second pass was told, are not yet written
  kWaitGroupRead,  // until at most `value` groups still read shared memory
  kProxyFence,
  // The CTA and the grid.
  kWaitGrid,     // griddepcontrol.wait: until the predecessor on the stream has ended
  kClusterSync,  // until all other warpgroups of the cluster (of the CTA if `value` is 0) are done
};

enum class Order : uint8_t { kRelaxed, kAcquire, kRelease, kAcquireRelease };
inline bool acquires(Order order) { return order == Order::kAcquire || order == Order::kAcquireRelease; }
inline bool releases(Order order) { return order == Order::kRelease || order == Order::kAcquireRelease; }

struct Instruction {
  Op op;
  Order order = Order::kRelaxed;
  uint16_t object = 0, mask = 1, extra = 0;
  uint32_t value = 0;
};

struct SecondPass {
  int entry;               // step
  std::vector<int> flags;  // of the images that the tile touches
};

struct AgentSpec {
  std::string name;
  int launch = 0, cta = 0;
  bool last_out = false;  // runs the CTA's way out
  int sync = 0;           // its step kClusterSync, if it is the last out
  int end = 0;            // the step that is none any more; second passes come behind it
  std::vector<Instruction> code;
  std::vector<SecondPass> passes;  // by the agent's tile number
};

struct BarrierSpec {
  std::string name;
  int arrivals;
};

struct CtaSpec {
  int launch, first_of_cluster, rank;
  int first_agent = 0, agents = 0;
  std::vector<BarrierSpec> barriers;
  int buffers = 0, parts = 1, readers = 1;  // readers: warpgroups that read each buffer
  // Buffers below `columns` are the ring's: stages * parts. In kept mode then each consumer group's columns, and from
  // `staging` on each consumer's staging buffers, which no other agent touches; `parts` places each.
  int columns = 0, staging = 0;
};

struct LaunchSpec {
  int stream, previous;  // previous: launch on the same stream, or -1
  int first_cta, ctas, cluster_ctas;
  bool cooperative, programmatic;
  std::map<int, uint32_t> outputs;  // location -> tag once the launch has ended
};

struct Atomic {
  std::string name;
  uint32_t initial, final;
};

struct System {
  std::vector<AgentSpec> agents;
  std::vector<CtaSpec> ctas;
  std::vector<LaunchSpec> launches;
  std::vector<std::string> locations;
  std::vector<Atomic> atomics;
  int processors = 1;
  uint32_t epochs = kEpochs;

  int location(const std::string& name);
  int atomic(const std::string& name, uint32_t initial);
};

System build(const Case& c);

// Text of an agent's step, for traces.
std::string describe(const System& system, int agent, int step);
std::string describe_tag(uint32_t tag);
std::string describe_buffer(const CtaSpec& cta, int buffer);
std::string describe_content(const CtaSpec& cta, int buffer, uint32_t value);

// Tags: which launch wrote what. Zero is what memory held before.
enum class Kind : uint32_t { kSlot = 1, kSegment, kStatistics, kPartial, kRaw, kFinal };
inline uint32_t tag(int launch, Kind kind, int number) {
  return uint32_t(launch + 1) << 20 | uint32_t(kind) << 16 | uint32_t(number);
}

}  // namespace unisono::simulator
