// Streamed with kept tiles: a team's tile waits in its staging buffers until the next one is published, and is then
// normalised there or spilled. Which of the two follows from the images of the team's tiles alone, so that programs
// stay without branches. Spare warps prepare the columns.
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

int LaunchBuilder::columns(int turn) const { return (kernel.stages + turn) * (kernel.cluster_blocks() > 1 ? 2 : 1); }
int LaunchBuilder::staging(int warpgroup) const { return columns(2 + warpgroup); }

uint32_t LaunchBuilder::columns_value(const TileShare& at) const {
  return uint32_t(at.parts[0].image * kernel.tiles_n * kernel.cluster_n + at.n + 1);
}

void LaunchBuilder::consume_kept(AgentSpec& agent, int cluster, int rank, int warpgroup) {
  Team team{agent, warpgroup, turn_of(warpgroup), rank, {}};
  for (int item = team.turn; item < items_of(cluster); item += kernel.turns()) {
    const TileShare at = team.places.emplace_back(place_of(cluster, rank, warpgroup, item));
    const int own = int(team.places.size()) - 1, image = at.parts[0].image;
    system.launches[number].outputs[at.output] = tag(number, Kind::kFinal, at.number);
    if (has_main_loop(cluster)) multiply(agent, item, rank, warpgroup);
    if (kernel.bug != Bug::kWaitBeforePublish) write_slot_entries(agent, at);
    if (own > 0) make_room(team, own - 1, kernel.bug == Bug::kWaitForOwnImage ? image + 1 : image, false);
    if (kernel.bug == Bug::kWaitBeforePublish) write_slot_entries(agent, at);
    keep(team, at);
  }
  if (!team.places.empty()) make_room(team, int(team.places.size()) - 1, -1, true);
  if (kernel.bug != Bug::kLeaveEarly) agent.code.push_back(simple(Op::kWaitGroupRead));
}

// Whether all tiles from the oldest unfinished one to `kept` need the same columns, so that any order will do.
bool LaunchBuilder::alike(const Team& team, int kept) const {
  if (team.oldest == kept) return true;
  const bool one_column = kernel.turns() * kernel.clusters() % kernel.tiles_n == 0;
  return one_column && team.places[team.oldest].parts[0].image == team.places[kept].parts[0].image;
}

void LaunchBuilder::finished(Team& team, int tile) const {
  team.done |= uint64_t(1) << (tile - team.oldest);
  for (; team.done & 1; team.done >>= 1) ++team.oldest;
}

// Frees the staging buffers, which hold tile `kept`, for a tile of `image`. Tiles of earlier images are finished, two
// at most, of which the first may be the kept one where it lies; at the end (`drain`) all are.
void LaunchBuilder::make_room(Team& team, int kept, int image, bool drain) {
  const TileShare last = team.places[kept];
  const bool any_order = alike(team, kept);
  bool in_place = any_order && last.parts[0].image != image && kept - team.oldest < kernel.window;
  if (!in_place) spill(team, last, Kind::kRaw);
  if (drain && any_order) {  // newest first: what was spilled last is the likeliest to be in the cache still
    for (int tile = kept; tile >= team.oldest; --tile) {
      const int bit = tile - team.oldest;
      if (bit < kernel.window && team.done >> bit & 1) continue;
      finish(team, team.places[tile], tile != kept || !in_place, tile != kept);
    }
    return;
  }
  for (int budget = 2; drain || budget > 0; --budget) {
    const int tile = in_place ? kept : team.oldest;
    if (tile > kept || team.places[tile].parts[0].image == image) break;
    finish(team, team.places[tile], !in_place, tile != kept);
    finished(team, tile);
    in_place = false;
  }
  if (!drain && team.oldest > kept && kernel.bug != Bug::kWaitForOwnImage) release_columns(team);
}

// The tile's centred values, and what they were centred by.
void LaunchBuilder::keep(Team& team, const TileShare& at) {
  auto& code = team.agent.code;
  if (kernel.bug != Bug::kStagingReused) code.push_back(simple(Op::kWaitGroupRead));
  code.push_back(simple(Op::kStage, 0, 1));
  code.push_back(simple(Op::kFill, staging(team.warpgroup), staged(at.number, Kind::kRaw)));
  const int centres = system.location(fmt::format("{}'s centres", team.agent.name));
  code.push_back(simple(Op::kWrite, centres, tag(number, Kind::kSlot, at.number)));
}

// The staging buffers go to the tile's place in the output, in one group.
void LaunchBuilder::spill(Team& team, const TileShare& at, Kind kind) {
  team.agent.code.push_back(simple(Op::kReadBuffer, staging(team.warpgroup), staged(at.number, kind)));
  team.agent.code.push_back(simple(Op::kStore, at.output, tag(number, kind, at.number)));
}

void LaunchBuilder::release_columns(Team& team) {
  if (team.image < 0) return;
  team.image = -1;
  if (kernel.bug == Bug::kColumnsNotReturned) return;
  const int parts = kernel.cluster_blocks() > 1 ? 2 : 1;
  team.agent.code.push_back({Op::kRelease, Order::kRelease, uint16_t(empty_columns(team.turn)),
                             uint16_t(1 << team.rank), uint16_t(columns(team.turn) / parts), 0});
}

void LaunchBuilder::await_columns(Team& team, const TileShare& at) {
  if (team.image == at.parts[0].image && team.n == at.n) return;
  if (kernel.bug == Bug::kColumnsOfAnotherImage && team.image >= 0) return;
  release_columns(team);
  team.agent.code.push_back(wait_barrier(full_columns(team.turn), uint32_t(team.runs++ & 1)));
  team.image = at.parts[0].image, team.n = at.n;
}

// Waits for the spill, then for TMA to bring it back. `later`: another store has been issued since.
void LaunchBuilder::load_back(Team& team, const TileShare& at, bool later) {
  auto& code = team.agent.code;
  if (kernel.bug != Bug::kReadWaitOnly)
    code.push_back(simple(Op::kWaitGroup, 0, uint32_t(later) + (kernel.bug == Bug::kWrongGroup)));
  if (kernel.bug != Bug::kStagingLoadedOver) code.push_back(simple(Op::kWaitGroupRead));
  if (kernel.bug != Bug::kNoProxyFence) code.push_back(simple(Op::kProxyFence));
  code.push_back(simple(Op::kStage, 0, 1));
  code.push_back(simple(Op::kRead, at.output, tag(number, Kind::kRaw, at.number)));
  const int barrier = loaded(team.warpgroup);
  code.push_back({Op::kExpect, Order::kRelease, uint16_t(barrier), uint16_t(1 << team.rank), 0, 1});
  code.push_back({Op::kLoad, Order::kRelaxed, uint16_t(staging(team.warpgroup)), uint16_t(1 << team.rank),
                  uint16_t(barrier), staged(at.number, Kind::kRaw)});
  const Part& part = at.parts[0];
  wait_for_entry(team.agent, fmt::format("slot of image {}, rows {}, channels {}", part.image, part.slot, at.n),
                 tag(number, Kind::kSlot, at.number));  // its own: what the tile was centred by
  code.push_back(wait_barrier(barrier, kernel.bug == Bug::kLoadedParity ? 0 : uint32_t(team.loads & 1)));
  ++team.loads;
}

// Normalises a tile in the staging buffers with its image's columns, and stores it.
void LaunchBuilder::finish(Team& team, const TileShare& at, bool spilled, bool later) {
  auto& code = team.agent.code;
  await_columns(team, at);
  if (spilled) {
    load_back(team, at, later);
  } else {
    const int centres = system.location(fmt::format("{}'s centres", team.agent.name));
    code.push_back(simple(Op::kRead, centres, tag(number, Kind::kSlot, at.number)));
  }
  code.push_back(simple(Op::kReadBuffer, columns(team.turn), columns_value(at)));
  code.push_back(simple(Op::kReadBuffer, staging(team.warpgroup), staged(at.number, Kind::kRaw)));
  code.push_back(simple(Op::kFill, staging(team.warpgroup), staged(at.number, Kind::kFinal)));
  spill(team, at, Kind::kFinal);
}

// A spare warp: for each run of the team's tiles with the same image and channels waits for the image, then for the
// columns before to be returned, and writes those of the run.
void LaunchBuilder::prepare(AgentSpec& agent, int cluster, int rank, int turn) {
  int runs = 0;
  int image = -1, n = -1;
  for (int item = turn; item < items_of(cluster); item += kernel.turns()) {
    const TileShare at = place_of(cluster, rank, 0, item);
    if (at.parts[0].image == image && (at.n == n || kernel.bug == Bug::kOneRunAnImage)) continue;
    image = at.parts[0].image, n = at.n;
    wait_for_entries(agent, at);
    const uint32_t parity = uint32_t(runs++ & 1) ^ 1;
    if (kernel.bug != Bug::kColumnsOverwritten) agent.code.push_back(wait_barrier(empty_columns(turn), parity));
    agent.code.push_back(simple(Op::kFill, columns(turn), columns_value(at)));
    agent.code.push_back(arrive_at(full_columns(turn), rank));
  }
}

}  // namespace unisono::simulator
