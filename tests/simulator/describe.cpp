// Words for cases, steps, tags and failures.
#include <fmt/format.h>

#include "machine.hpp"

namespace unisono::simulator {

std::string describe_tag(uint32_t value) {
  if (value == 0) return "what lay there before";
  static constexpr const char* kNames[] = {"?",           "slot",     "segment",   "statistics",
                                           "partial sum", "raw tile", "final tile"};
  return fmt::format("{} {} of launch {}", kNames[value >> 16 & 15], value & 0xffff, (value >> 20) - 1);
}

std::string describe_buffer(const CtaSpec& cta, int buffer) {
  if (buffer < cta.columns) return fmt::format("buffer {}", buffer);
  if (buffer < cta.staging) return fmt::format("the columns of consumer group {}", (buffer - cta.columns) / cta.parts);
  return fmt::format("the staging buffers of consumer {}", (buffer - cta.staging) / cta.parts);
}

std::string describe_content(const CtaSpec& cta, int buffer, uint32_t value) {
  if (value == 0) return "nothing";
  if (buffer < cta.columns) return fmt::format("ring block {}", value - 1);
  if (buffer < cta.staging) return fmt::format("columns {}", value - 1);
  return fmt::format("{} tile {}", value & 1 ? "centred" : "final", (value - 1) / 2);
}

std::string describe(const System& system, int agent, int step) {
  const AgentSpec& spec = system.agents[agent];
  const Instruction& i = spec.code[step];
  const auto& barriers = system.ctas[spec.cta].barriers;
  static constexpr const char* kOrders[] = {"relaxed", "acquire", "release", "acquire and release"};
  const char* order = kOrders[int(i.order)];
  auto barrier = [&](int b) { return fmt::format("{}", barriers[b].name); };
  auto buffer = [&] { return describe_buffer(system.ctas[spec.cta], i.object); };
  auto content = [&] { return describe_content(system.ctas[spec.cta], i.object, i.value); };
  auto atomic = [&] { return system.atomics[i.object].name; };
  auto others = [&] {
    return system.launches[spec.launch].cluster_ctas > 1 ? fmt::format(" of blocks {:#b}", i.mask) : std::string();
  };
  switch (i.op) {
    case Op::kWaitBarrier: return fmt::format("waits for {}, parity {}", barrier(i.object), i.value);
    case Op::kArrive: return fmt::format("arrives at {}", barrier(i.object));
    case Op::kExpect: return fmt::format("arrives at {} and expects {} deliveries", barrier(i.object), i.value);
    case Op::kLoad: return fmt::format("loads {} into {}{}", content(), buffer(), others());
    case Op::kReadBuffer: return fmt::format("uses {} in {}", content(), buffer());
    case Op::kFill: return fmt::format("{} <- {}", buffer(), content());
    case Op::kRelease:
      return fmt::format("releases {}: arrives at {}{}",
                         describe_buffer(system.ctas[spec.cta], i.extra * system.ctas[spec.cta].parts),
                         barrier(i.object), others());
    case Op::kWrite: return fmt::format("{} <- {}", system.locations[i.object], describe_tag(i.value));
    case Op::kRead: return fmt::format("reads {}", system.locations[i.object]);
    case Op::kReadEpoch: return fmt::format("reads the epoch: {} / {}", atomic(), i.value);
    case Op::kAdd: return fmt::format("adds to {} ({}); {} make it complete", atomic(), order, i.value);
    case Op::kSkipUnlessLast: return "goes on if it was the last";
    case Op::kSetFlag: return fmt::format("sets {} to epoch + 1 ({})", atomic(), order);
    case Op::kWaitFlag: return fmt::format("waits for {} ({})", atomic(), order);
    case Op::kExit: return fmt::format("counts itself out in {}", atomic());
    case Op::kReset: return fmt::format("sets {} to 0", atomic());
    case Op::kSetCount: return fmt::format("{} <- {} ({})", atomic(), i.value, order);
    case Op::kWaitCount: return fmt::format("waits for {} to be {} ({})", atomic(), i.value, order);
    case Op::kWriteEntry: return fmt::format("{} <- {}, tagged", system.locations[i.extra], describe_tag(i.value));
    case Op::kWriteTag: return fmt::format("tags {}", system.locations[i.extra]);
    case Op::kWaitEntry: return fmt::format("waits for {}'s tag", system.locations[i.extra]);
    case Op::kOwn: return fmt::format("has tile {} to normalise later", i.value);
    case Op::kPoll: return fmt::format("looks whether a tile before its number {} can be normalised", i.value);
    case Op::kDrain: return "waits for its next tile's images";
    case Op::kReturn: return "has normalised the tile";
    case Op::kStage: return "fills a staging buffer";
    case Op::kStore: return fmt::format("TMA: {} <- {}", system.locations[i.object], describe_tag(i.value));
    case Op::kWaitGroup: return "waits until its stores are written";
    case Op::kWaitGroupRead: return fmt::format("waits until at most {} stores read shared memory", i.value);
    case Op::kProxyFence: return "proxy fence";
    case Op::kWaitGrid: return "waits for the predecessor to end";
    case Op::kClusterSync: return i.value ? "waits for the cluster's warpgroups" : "waits for the block's warpgroups";
  }
  return {};
}

std::string to_string(FailureKind kind) {
  switch (kind) {
    case FailureKind::kDeadlock: return "deadlock";
    case FailureKind::kStale: return "stale read";
    case FailureKind::kUnordered: return "unordered access";
    case FailureKind::kWrongStage: return "wrong stage";
    case FailureKind::kOverwritten: return "overwritten in use";
    case FailureKind::kOutput: return "wrong output";
    case FailureKind::kBookkeeping: return "wrong bookkeeping";
    case FailureKind::kAfterExit: return "signalled after exit";
    case FailureKind::kRefused: return "launch refused";
  }
  return {};
}

std::string to_string(const Case& c) {
  std::string text = fmt::format("{} blocks fit, epoch {} of {}", c.processors, c.first_epoch, c.epochs);
  for (const Launch& l : c.launches) {
    const Kernel& k = l.kernel;
    if (l.memset) {
      text += fmt::format("\n  stream {}: memset of workspace {}", l.stream, l.workspace);
      continue;
    }
    static constexpr const char* kModes[] = {"plain", "resident", "streamed", "kept", "rows", "over rows"};
    text += fmt::format(
        "\n  stream {}: {} {} by {}{}{}, workspace {}, output {}, {} blocks in clusters of {}x{}, {} consumers, {} "
        "images of {} rows,"
        " tiles of {} rows x {} across{}, split-K {}, {} levels, segments of {}, {} k-blocks in {} stages, {} store "
        "buffers, order at storing {}, bug {}",
        l.stream, kModes[int(k.mode)], k.schedule == Schedule::kPingPong ? "ping-pong" : "cooperative",
        k.exchange == Exchange::kTags ? "tags" : "counters", l.cooperative ? "" : ", started block by block",
        l.programmatic ? ", programmatic" : "", l.workspace, l.output, k.ctas, k.cluster_m, k.cluster_n, k.consumers(),
        k.images, k.rows, k.tile_rows, k.tiles_n, k.by_channels ? " by channels" : "", k.split_k, k.levels,
        k.segment_slots, k.k_blocks, k.stages, k.store_buffers, k.ordered_store, int(k.bug));
  }
  return text;
}

}  // namespace unisono::simulator
