// Streamed with kept tiles: a consumer group's tile waits in its staging buffers until the next one is published, and
// is then normalised there or spilled. Which of the two follows from the images of the group's tiles alone, so that
// programs stay without branches. Spare warps prepare the columns.
#include <fmt/format.h>

#include <algorithm>

#include "builder.hpp"

namespace unisono::simulator {

namespace {

Instruction wait_barrier(int barrier, uint32_t parity) {
  return {Op::kWaitBarrier, Order::kAcquire, uint16_t(barrier), 1, 0, parity};
}
Instruction arrive_at(int barrier, int rank) {
  return {Op::kArrive, Order::kRelease, uint16_t(barrier), uint16_t(1 << rank), 0, 0};
}
Instruction simple(Op op, int object = 0, uint32_t value = 0) {
  return {op, Order::kRelaxed, uint16_t(object), 1, 0, value};
}

// What lies in staging buffers: a tile's values as they are kept, or normalised.
uint32_t staged(int tile, Kind kind) { return uint32_t(2 * tile + (kind == Kind::kFinal ? 2 : 1)); }

}  // namespace

int LaunchBuilder::columns(int group) const { return (kernel.stages + group) * (kernel.cluster_ctas() > 1 ? 2 : 1); }
int LaunchBuilder::staging(int warpgroup) const { return columns(2 + warpgroup); }

uint32_t LaunchBuilder::columns_value(const TileShare& at) const {
  return uint32_t(at.parts[0].image * kernel.tiles_n * kernel.cluster_n + at.n + 1);
}

// Tiles with the same number wait for the same statistics: an image's, or by channels those of a tile's channels.
int LaunchBuilder::domain_of(const TileShare& at) const {
  const int image = at.parts[0].image;
  return kernel.by_channels ? image * kernel.tiles_n + at.n / kernel.cluster_n : image;
}

void LaunchBuilder::consume_kept(AgentSpec& agent, int cluster, int rank, int warpgroup) {
  ConsumerGroup group{agent, warpgroup, group_of(warpgroup), rank, {}};
  for (int item = group.index; item < items_of(cluster); item += kernel.consumer_groups()) {
    const TileShare at = group.places.emplace_back(place_of(cluster, rank, warpgroup, item));
    const int own = int(group.places.size()) - 1, domain = domain_of(at);
    system.launches[number].outputs[at.output] = tag(number, Kind::kFinal, at.number);
    if (has_main_loop(cluster)) multiply(agent, item, rank, warpgroup);
    if (kernel.bug != Bug::kWaitBeforePublish) write_slot_entries(agent, at);
    if (own > 0) make_room(group, own - 1, kernel.bug == Bug::kWaitForOwnImage ? domain + 1 : domain, false);
    if (kernel.bug == Bug::kWaitBeforePublish) write_slot_entries(agent, at);
    keep(group, at);
  }
  if (!group.places.empty()) make_room(group, int(group.places.size()) - 1, -1, true);
  if (kernel.bug != Bug::kLeaveEarly) agent.code.push_back(simple(Op::kWaitGroupRead));
}

// Whether all tiles from the oldest unfinished one to `kept` need the same columns, so that any order will do.
bool LaunchBuilder::alike(const ConsumerGroup& group, int kept) const {
  if (group.oldest == kept) return true;
  const bool one_column = kernel.by_channels || kernel.consumer_groups() * kernel.clusters() % kernel.tiles_n == 0;
  return one_column && domain_of(group.places[group.oldest]) == domain_of(group.places[kept]);
}

void LaunchBuilder::finished(ConsumerGroup& group, int tile) const {
  group.done |= uint64_t(1) << (tile - group.oldest);
  for (; group.done & 1; group.done >>= 1) ++group.oldest;
}

// Frees the staging buffers, which hold tile `kept`, for a tile of `domain`. Tiles of earlier ones are finished, two at
// most, of which the first may be the kept one where it lies; at the end (`drain`) all are.
void LaunchBuilder::make_room(ConsumerGroup& group, int kept, int domain, bool drain) {
  const TileShare last = group.places[kept];
  const bool any_order = alike(group, kept);
  bool in_place = any_order && domain_of(last) != domain && kept - group.oldest < kernel.window;
  if (!in_place) spill(group, last, Kind::kRaw);
  if (drain && any_order) {  // newest first: what was spilled last is the likeliest to be in the cache still
    for (int tile = kept; tile >= group.oldest; --tile) {
      const int bit = tile - group.oldest;
      if (bit < kernel.window && group.done >> bit & 1) continue;
      finish(group, group.places[tile], tile != kept || !in_place, tile != kept);
    }
    return;
  }
  for (int budget = 2; drain || budget > 0; --budget) {
    const int tile = in_place ? kept : group.oldest;
    if (tile > kept || domain_of(group.places[tile]) == domain) break;
    finish(group, group.places[tile], !in_place, tile != kept);
    finished(group, tile);
    in_place = false;
  }
  if (!drain && group.oldest > kept && kernel.bug != Bug::kWaitForOwnImage) release_columns(group);
}

// The tile's centred values, and what they were centred by.
void LaunchBuilder::keep(ConsumerGroup& group, const TileShare& at) {
  auto& code = group.agent.code;
  if (kernel.bug != Bug::kStagingReused) code.push_back(simple(Op::kWaitGroupRead));
  code.push_back(simple(Op::kStage, 0, 1));
  code.push_back(simple(Op::kFill, staging(group.warpgroup), staged(at.number, Kind::kRaw)));
  const int centres = system.location(fmt::format("{}'s centres", group.agent.name));
  code.push_back(simple(Op::kWrite, centres, tag(number, Kind::kSlot, at.number)));
}

// The staging buffers go to the tile's place in the output, in one group.
void LaunchBuilder::spill(ConsumerGroup& group, const TileShare& at, Kind kind) {
  group.agent.code.push_back(simple(Op::kReadBuffer, staging(group.warpgroup), staged(at.number, kind)));
  group.agent.code.push_back(simple(Op::kStore, at.output, tag(number, kind, at.number)));
}

void LaunchBuilder::release_columns(ConsumerGroup& group) {
  if (group.image < 0) return;
  group.image = -1;
  if (kernel.bug == Bug::kColumnsNotReturned) return;
  const int parts = kernel.cluster_ctas() > 1 ? 2 : 1;
  group.agent.code.push_back({Op::kRelease, Order::kRelease, uint16_t(empty_columns(group.index)),
                              uint16_t(1 << group.rank), uint16_t(columns(group.index) / parts), 0});
}

void LaunchBuilder::await_columns(ConsumerGroup& group, const TileShare& at) {
  if (group.image == at.parts[0].image && group.n == at.n) return;
  if (kernel.bug == Bug::kColumnsOfAnotherImage && group.image >= 0) return;
  release_columns(group);
  group.agent.code.push_back(wait_barrier(full_columns(group.index), uint32_t(group.runs++ & 1)));
  group.image = at.parts[0].image, group.n = at.n;
}

// Waits for the spill, then for TMA to bring it back. `later`: another store has been issued since.
void LaunchBuilder::load_back(ConsumerGroup& group, const TileShare& at, bool later) {
  auto& code = group.agent.code;
  if (kernel.bug != Bug::kReadWaitOnly)
    code.push_back(simple(Op::kWaitGroup, 0, uint32_t(later) + (kernel.bug == Bug::kWrongGroup)));
  if (kernel.bug != Bug::kStagingLoadedOver) code.push_back(simple(Op::kWaitGroupRead));
  if (kernel.bug != Bug::kNoProxyFence) code.push_back(simple(Op::kProxyFence));
  code.push_back(simple(Op::kStage, 0, 1));
  code.push_back(simple(Op::kRead, at.output, tag(number, Kind::kRaw, at.number)));
  const int barrier = loaded(group.warpgroup);
  code.push_back({Op::kExpect, Order::kRelease, uint16_t(barrier), uint16_t(1 << group.rank), 0, 1});
  code.push_back({Op::kLoad, Order::kRelaxed, uint16_t(staging(group.warpgroup)), uint16_t(1 << group.rank),
                  uint16_t(barrier), staged(at.number, Kind::kRaw)});
  const Part& part = at.parts[0];
  wait_for_entry(group.agent, fmt::format("slot of image {}, rows {}, channels {}", part.image, part.slot, at.n),
                 tag(number, Kind::kSlot, at.number));  // its own: what the tile was centred by
  code.push_back(wait_barrier(barrier, kernel.bug == Bug::kLoadedParity ? 0 : uint32_t(group.loads & 1)));
  ++group.loads;
}

// Normalises a tile in the staging buffers with its image's columns, and stores it.
void LaunchBuilder::finish(ConsumerGroup& group, const TileShare& at, bool spilled, bool later) {
  auto& code = group.agent.code;
  await_columns(group, at);
  if (spilled) {
    load_back(group, at, later);
  } else {
    const int centres = system.location(fmt::format("{}'s centres", group.agent.name));
    code.push_back(simple(Op::kRead, centres, tag(number, Kind::kSlot, at.number)));
  }
  code.push_back(simple(Op::kReadBuffer, columns(group.index), columns_value(at)));
  code.push_back(simple(Op::kReadBuffer, staging(group.warpgroup), staged(at.number, Kind::kRaw)));
  code.push_back(simple(Op::kFill, staging(group.warpgroup), staged(at.number, Kind::kFinal)));
  spill(group, at, Kind::kFinal);
}

// A spare warp: for each run of the group's tiles with the same image and channels waits for the image, then for the
// columns before to be returned, and writes those of the run.
void LaunchBuilder::prepare(AgentSpec& agent, int cluster, int rank, int group) {
  int runs = 0;
  int image = -1, n = -1;
  for (int item = group; item < items_of(cluster); item += kernel.consumer_groups()) {
    const TileShare at = place_of(cluster, rank, 0, item);
    if (at.parts[0].image == image && (at.n == n || kernel.bug == Bug::kOneRunAnImage)) continue;
    image = at.parts[0].image, n = at.n;
    wait_for_entries(agent, at);
    const uint32_t parity = uint32_t(runs++ & 1) ^ 1;
    if (kernel.bug != Bug::kColumnsOverwritten) agent.code.push_back(wait_barrier(empty_columns(group), parity));
    agent.code.push_back(simple(Op::kFill, columns(group), columns_value(at)));
    agent.code.push_back(arrive_at(full_columns(group), rank));
  }
}

}  // namespace unisono::simulator
