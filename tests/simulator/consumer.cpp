// A consumer warpgroup's program: main loop, statistics, normalisation, stores.
#include <fmt/format.h>

#include <algorithm>

#include "builder.hpp"

namespace unisono::simulator {

namespace {

void emit(AgentSpec& agent, Op op, int object = 0, uint32_t value = 0, Order order = Order::kRelaxed) {
  agent.code.push_back({op, order, uint16_t(object), 1, 0, value});
}

}  // namespace

int LaunchBuilder::slot_location(int image, int slot, int n) {
  return workspace_location(fmt::format("slot of image {}, rows {}, channels {}", image, slot, n));
}

LaunchBuilder::TileShare LaunchBuilder::place_of(int cluster, int rank, int warpgroup, int item) {
  const int index = cluster + item * kernel.clusters();
  const Tile& tile = tiles[index / kernel.split_k];
  const int half = warpgroup % halves();
  TileShare at{share_of(tile, rank, half), rank, tile.n * kernel.cluster_n + rank % kernel.cluster_n, tile.parts,
               index % kernel.split_k,     0};
  for (Part& part : at.parts) part.slot += rank / kernel.cluster_n * halves() + half;
  at.output = system.location(fmt::format("out{} tile {}", launch.output, at.number));
  return at;
}

// The tile's product; releases each stage once the matrix instruction that reads it has ended.
void LaunchBuilder::multiply(AgentSpec& agent, int item, int rank, int warpgroup) {
  const Kernel& k = kernel;
  const bool ping_pong = k.schedule == Schedule::kPingPong;
  const int parts = k.cluster_ctas() > 1 ? 2 : 1;
  const uint16_t mask = readers_of(rank);
  const int first = k.bug == Bug::kConsumerPosition && ping_pong ? item / 2 * k.k_blocks : item * k.k_blocks;
  const int group = group_of(warpgroup), order = 2 * k.stages;
  auto read = [&](int b) {
    for (int p = 0; p < parts; ++p)
      emit(agent, Op::kReadBuffer, b % k.stages * parts + p, uint32_t(item * k.k_blocks + b - first + 1));
  };
  auto retire = [&](int b) {
    const auto stage = uint16_t(b % k.stages);
    const Instruction release{Op::kRelease, Order::kRelease, uint16_t(k.stages + stage), mask, stage, 0};
    if (k.bug == Bug::kReleaseBeforeRead) agent.code.push_back(release);
    read(b);
    if (k.bug != Bug::kReleaseBeforeRead) agent.code.push_back(release);
  };
  if (ping_pong && k.bug != Bug::kNoTurn)
    emit(agent, Op::kWaitBarrier, order + group, uint32_t(item / 2 & 1) ^ uint32_t(group == 0), Order::kAcquire);
  for (int b = first; b < first + k.k_blocks; ++b) {
    emit(agent, Op::kWaitBarrier, b % k.stages, uint32_t(b / k.stages & 1), Order::kAcquire);
    read(b);
    if (b > first) retire(b - 1);
  }
  if (ping_pong && k.bug != Bug::kNoTurn)
    agent.code.push_back({Op::kArrive, Order::kRelease, uint16_t(order + (group ^ 1)), uint16_t(1 << rank), 0, 0});
  retire(first + k.k_blocks - 1);
}

Order LaunchBuilder::arrival_order() const {
  switch (kernel.bug) {
    case Bug::kNoRelease: return Order::kAcquire;
    case Bug::kNoAcquire: return Order::kRelease;
    case Bug::kRelaxedCounter: return Order::kRelaxed;
    default: return Order::kAcquireRelease;
  }
}

Order LaunchBuilder::flag_order() const { return kernel.bug == Bug::kRelaxedFlag ? Order::kRelaxed : Order::kAcquire; }

void LaunchBuilder::arrive(AgentSpec& agent, int atomic, int arrivals, Order order) {
  emit(agent, Op::kAdd, atomic, uint32_t(arrivals), order);
  arrivals_of[atomic] = arrivals;
}

// Split-K: the last partner to arrive adds the partial sums up, in the order of k, and has the tile; the others go
// on. Returns the step to be patched with the tile's end.
size_t LaunchBuilder::reduce_partials(AgentSpec& agent, const TileShare& at) {
  const auto partial = [&](int k_part) {
    return workspace_location(fmt::format("partial sum {} of tile {}", k_part, at.number));
  };
  const auto value = [&](int k_part) { return tag(number, Kind::kPartial, at.number * kernel.split_k + k_part); };
  const int arrivals = kernel.split_k;
  const int atomic = counter(fmt::format("counter of tile {}'s partners", at.number), arrivals);
  const bool late = kernel.bug == Bug::kPartialUnpublished;
  if (!late) emit(agent, Op::kWrite, partial(at.k_part), value(at.k_part));
  arrive(agent, atomic, arrivals, Order::kAcquireRelease);
  if (late) emit(agent, Op::kWrite, partial(at.k_part), value(at.k_part));
  const size_t patch = agent.code.size();
  emit(agent, Op::kSkipUnlessLast);
  for (int p = 0; p < kernel.split_k; ++p) emit(agent, Op::kRead, partial(p), value(p));
  return patch;
}

void LaunchBuilder::write_slots(AgentSpec& agent, const TileShare& at) {
  for (const Part& part : at.parts)
    emit(agent, Op::kWrite, slot_location(part.image, part.slot, at.n), tag(number, Kind::kSlot, at.number));
}

// Slots are merged to segments, segments to the image, by whoever arrives last; that one raises the image's flag.
void LaunchBuilder::publish_part(AgentSpec& agent, const TileShare& at, const Part& part) {
  const int tiles_n = kernel.tiles_n * kernel.cluster_n;
  const int size = kernel.segment_slots, count = slots[part.image];
  const int segments = (count + size - 1) / size, segment = part.slot / size;
  const auto segment_location = [&](int s, int n) {
    return workspace_location(fmt::format("segment of image {}, rows {}, channels {}", part.image, s, n));
  };
  const auto segment_tag = [&](int s, int n) {
    return tag(number, Kind::kSegment, (part.image * segments + s) * tiles_n + n);
  };
  std::vector<size_t> patches;
  auto skip_unless_last = [&] {
    patches.push_back(agent.code.size());
    emit(agent, Op::kSkipUnlessLast);
  };
  const auto slot_tag = [&](int slot, int n) { return tag(number, Kind::kSlot, slot_owner.at({part.image, slot, n})); };
  if (size > 1) {
    const int first = segment * size, arrivals = std::min(size, count - first);
    arrive(agent,
           counter(fmt::format("counter of image {}, segment {}, channels {}", part.image, segment, at.n), arrivals),
           arrivals, arrival_order());
    skip_unless_last();
    for (int s = first; s < first + arrivals; ++s)
      emit(agent, Op::kRead, slot_location(part.image, s, at.n), slot_tag(s, at.n));
    emit(agent, Op::kWrite, segment_location(segment, at.n), segment_tag(segment, at.n));
  }
  const int arrivals = tiles_n * segments;
  arrive(agent, counter(fmt::format("counter of image {}", part.image), arrivals), arrivals, arrival_order());
  skip_unless_last();
  for (int s = 0; s < segments; ++s)
    for (int n = 0; n < tiles_n; ++n) {
      if (size > 1)
        emit(agent, Op::kRead, segment_location(s, n), segment_tag(s, n));
      else
        emit(agent, Op::kRead, slot_location(part.image, s, n), slot_tag(s, n));
    }
  emit(agent, Op::kWrite, workspace_location(fmt::format("statistics of image {}", part.image)),
       tag(number, Kind::kStatistics, part.image));
  emit(agent, Op::kSetFlag, flag(part.image), 0, kernel.bug == Bug::kNoFlagRelease ? Order::kRelaxed : Order::kRelease);
  for (size_t patch : patches) agent.code[patch].value = uint32_t(agent.code.size());
}

void LaunchBuilder::publish(AgentSpec& agent, const TileShare& at) {
  for (const Part& part : at.parts) publish_part(agent, at, part);
}

void LaunchBuilder::wait_for_images(AgentSpec& agent, const TileShare& at) {
  for (const Part& part : at.parts) emit(agent, Op::kWaitFlag, flag(part.image), 0, flag_order());
}

void LaunchBuilder::read_statistics(AgentSpec& agent, const TileShare& at) {
  for (const Part& part : at.parts)
    emit(agent, Op::kRead, workspace_location(fmt::format("statistics of image {}", part.image)),
         tag(number, Kind::kStatistics, part.image));
}

void LaunchBuilder::wait_to_store(AgentSpec& agent, int item, int warpgroup) {
  if (kernel.ordered_store)
    emit(agent, Op::kWaitBarrier, 2 * kernel.stages + 2 + group_of(warpgroup),
         uint32_t(item / 2 & 1) ^ uint32_t(group_of(warpgroup) == 0), Order::kAcquire);
}

void LaunchBuilder::store(AgentSpec& agent, const TileShare& at, Kind kind) {
  if (kernel.bug != Bug::kStagingReused) emit(agent, Op::kWaitGroupRead, 0, uint32_t(kernel.store_buffers - 1));
  emit(agent, Op::kStage, 0, uint32_t(kernel.store_buffers));
  emit(agent, Op::kStore, at.output, tag(number, kind, at.number));
}

void LaunchBuilder::finish_tile(AgentSpec& agent, const TileShare& at, int item, int warpgroup) {
  if (kernel.mode == Mode::kPlain) return store(agent, at, Kind::kFinal);
  if (kernel.mode == Mode::kOverRows) return exchange_over_rows(agent, at);
  if (kernel.mode == Mode::kRows) {
    exchange_rows(agent, at);
    return store(agent, at, Kind::kFinal);
  }
  const bool tags = by_tags();
  auto publish_all = [&] { tags ? write_slot_entries(agent, at) : publish(agent, at); };
  auto wait_for_all = [&] { tags ? wait_for_entries(agent, at) : wait_for_images(agent, at); };
  if (!tags) write_slots(agent, at);
  if (kernel.mode == Mode::kStreamed) {
    if (tags) publish_all();
    store(agent, at, Kind::kRaw);
    if (!tags) publish_all();
    return;
  }
  const bool store_first = kernel.bug == Bug::kStoreOrderBeforePublish;
  if (store_first) wait_to_store(agent, item, warpgroup);
  if (kernel.bug == Bug::kWaitBeforePublish) wait_for_all();
  publish_all();
  if (kernel.bug != Bug::kWaitBeforePublish) wait_for_all();
  if (!tags) read_statistics(agent, at);
  if (!store_first) wait_to_store(agent, item, warpgroup);
  store(agent, at, Kind::kFinal);
  if (kernel.ordered_store)
    agent.code.push_back({Op::kArrive, Order::kRelease, uint16_t(2 * kernel.stages + 2 + (group_of(warpgroup) ^ 1)),
                          uint16_t(1 << at.rank), 0, 0});
}

// Re-reads what this warpgroup stored itself, normalises, stores in place.
void LaunchBuilder::second_pass(AgentSpec& agent, const TileShare& at) {
  SecondPass pass{int(agent.code.size()), {}};
  for (const Part& part : at.parts) pass.flags.push_back(flag(part.image));
  agent.passes.push_back(pass);
  if (kernel.bug != Bug::kReadWaitOnly) emit(agent, Op::kWaitGroup, 0, kernel.bug == Bug::kWrongGroup ? 1 : 0);
  emit(agent, Op::kWaitGroupRead, 0, 0);
  if (kernel.bug != Bug::kNoProxyFence) emit(agent, Op::kProxyFence);
  emit(agent, Op::kRead, at.output, tag(number, Kind::kRaw, at.number));
  read_statistics(agent, at);
  for (const Part& part : at.parts)  // the tile's own mean, which centres the raw values
    emit(agent, Op::kRead, slot_location(part.image, part.slot, at.n), tag(number, Kind::kSlot, at.number));
  emit(agent, Op::kWrite, at.output, tag(number, Kind::kFinal, at.number));
  emit(agent, Op::kReturn);
}

// Whether tiles that wait in memory do so for the same results.
bool LaunchBuilder::waits_with(const TileShare& a, const TileShare& b) const {
  return a.parts[0].image == b.parts[0].image && (kernel.mode == Mode::kOverRows || a.parts[0].slot == b.parts[0].slot);
}

// Returns the tiles whose second passes are to be appended.
std::vector<LaunchBuilder::TileShare> LaunchBuilder::consume(AgentSpec& agent, int cluster, int rank, int warpgroup) {
  if (kernel.mode == Mode::kKept) return consume_kept(agent, cluster, rank, warpgroup), std::vector<TileShare>();
  const bool streamed = kernel.mode == Mode::kStreamed;
  // The store of the tile just done may stay pending; with split-K there may be none.
  const bool later = kernel.split_k == 1 || kernel.bug == Bug::kOneStoreLater;
  std::vector<TileShare> places, row;
  for (int item = group_of(warpgroup); item < items_of(cluster); item += kernel.consumer_groups()) {
    const int own = int(places.size());
    const TileShare& at = places.emplace_back(place_of(cluster, rank, warpgroup, item));
    system.launches[number].outputs[at.output] = tag(number, Kind::kFinal, at.number);
    if (has_main_loop(cluster)) multiply(agent, item, rank, warpgroup);
    size_t patch = 0;
    if (kernel.split_k > 1 && by_tags()) {
      if (!add_partials(agent, at)) continue;
    } else if (kernel.split_k > 1) {
      patch = reduce_partials(agent, at);
    }
    if (kernel.in_memory) {
      const bool over_rows = kernel.mode == Mode::kOverRows;
      row.push_back(at);
      over_rows ? reduce_over_rows(agent, at, 0) : write_row_entry(agent, at, 0);
      const int next = item + kernel.consumer_groups();
      if (next < items_of(cluster) && waits_with(place_of(cluster, rank, warpgroup, next), at)) continue;
      over_rows ? pass_over_image(agent, row) : pass_over_row(agent, row);
      row.clear();
      continue;
    }
    if (kernel.deferred) {
      const bool late = kernel.bug == Bug::kEntryWithItsResult;
      if (!late) write_row_entry(agent, at, 0);
      if (own > 0) finish_deferred(agent, places[size_t(own) - 1]);
      continue;
    }
    finish_tile(agent, at, item, warpgroup);
    if (streamed && !by_tags()) emit(agent, Op::kOwn, 0, uint32_t(own));
    if (patch) agent.code[patch].value = uint32_t(agent.code.size());
    if (streamed && by_tags()) tell_stored(agent, warpgroup, own, 1);
    if (streamed && !by_tags())
      for (int budget = 2; budget > 0; --budget)
        agent.code.push_back({Op::kPoll, flag_order(), 0, 1, later, uint32_t(own)});
  }
  if (kernel.deferred && !places.empty()) finish_deferred(agent, places.back());
  if (streamed && by_tags()) tell_stored(agent, warpgroup, int(places.size()), 0);
  if (streamed && !by_tags()) emit(agent, Op::kDrain, 0, uint32_t(places.size()), flag_order());
  if (kernel.bug != Bug::kLeaveEarly) emit(agent, Op::kWaitGroupRead, 0, 0);
  return streamed && !by_tags() ? places : std::vector<TileShare>();
}

}  // namespace unisono::simulator
