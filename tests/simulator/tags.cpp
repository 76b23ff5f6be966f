// The exchange by tagged entries: slots and segments without counters, and second passes by a warpgroup of their own.
#include <fmt/format.h>

#include <algorithm>

#include "builder.hpp"

namespace unisono::simulator {

void LaunchBuilder::write_entry(AgentSpec& agent, const std::string& name, uint32_t value) {
  const auto cell = uint16_t(counter("tag of " + name, 1)), place = uint16_t(workspace_location(name));
  if (kernel.bug == Bug::kTornEntry) agent.code.push_back({Op::kWriteTag, Order::kRelaxed, cell, 1, place, 0});
  agent.code.push_back({Op::kWriteEntry, Order::kRelaxed, cell, 1, place, value});
  tags_written.push_back(cell);
}

void LaunchBuilder::wait_for_entry(AgentSpec& agent, const std::string& name, uint32_t value) {
  const auto cell = uint16_t(counter("tag of " + name, 1)), place = uint16_t(workspace_location(name));
  agent.code.push_back({Op::kWaitEntry, Order::kRelaxed, cell, 1, place, value});
}

namespace {

std::string slot_name(int image, int slot, int n) {
  return fmt::format("slot of image {}, rows {}, channels {}", image, slot, n);
}
std::string share_name(int image, int slot, int n) {
  return fmt::format("segment share of image {}, rows {}, channels {}", image, slot, n);
}

}  // namespace

void LaunchBuilder::write_slot_entries(AgentSpec& agent, const TileShare& at) {
  for (const Part& part : at.parts)
    write_entry(agent, slot_name(part.image, part.slot, at.n), tag(number, Kind::kSlot, at.number));
}

// All slots of the tile's images or, if slots form segments, every member's share of its segment's work.
void LaunchBuilder::wait_for_entries(AgentSpec& agent, const TileShare& at) {
  const bool segments = kernel.segment_slots > 1,
             own = kernel.by_channels && kernel.bug != Bug::kGroupsCrossTiles;  // channels alone
  const int further = kernel.group_tiles - 1, across = kernel.tiles_n * kernel.cluster_n;
  for (const Part& part : at.parts)
    for (int slot = 0; slot < slots[part.image]; ++slot)
      for (int n = own ? std::max(0, at.n - further) : 0, end = own ? std::min(at.n + further + 1, across) : across;
           n < end; ++n) {
        const int owner = slot_owner.at({part.image, slot, n});
        if (segments)
          wait_for_entry(agent, share_name(part.image, slot, n), tag(number, Kind::kSegment, owner));
        else
          wait_for_entry(agent, slot_name(part.image, slot, n), tag(number, Kind::kSlot, owner));
      }
}

// General epilogues: level by level, what this warpgroup has of its rows, then what the tiles beside it have. A
// warpgroup's rows are one entry here; in the kernels each row has its own.
void LaunchBuilder::exchange_rows(AgentSpec& agent, const TileShare& at) {
  const Part& part = at.parts[0];
  const auto name = [&](int level, int n) {
    const int place = kernel.bug == Bug::kLevelsShareEntries ? 0 : level;
    return fmt::format("level {} of image {}, rows {}, channels {}", place, part.image, part.slot, n);
  };
  const auto value = [&](int level, int owner) { return tag(number, Kind::kSlot, owner * kernel.levels + level); };
  const bool late = kernel.bug == Bug::kNextLevelFirst;
  for (int level = 0; level < kernel.levels; ++level) {
    if (!late) write_entry(agent, name(level, at.n), value(level, at.number));
    for (int n = 0; n < kernel.tiles_n * kernel.cluster_n; ++n)
      wait_for_entry(agent, name(level, n), value(level, slot_owner.at({part.image, part.slot, n})));
    if (late) write_entry(agent, name(level, at.n), value(level, at.number));
  }
}

// What a tile has of its rows, of a level; merged: what its share of them is for all tiles.
std::string LaunchBuilder::row_name(const char* what, const Part& part, int level, int n) {
  return fmt::format("{} of level {} of image {}, rows {}, channels {}", what, level, part.image, part.slot, n);
}

void LaunchBuilder::write_row_entry(AgentSpec& agent, const TileShare& at, int level) {
  write_entry(agent, row_name("entry", at.parts[0], level, at.n),
              tag(number, Kind::kSlot, at.number * kernel.levels + level));
}

// A tile of rows that are deferred, which waited for what the tiles beside it have of them.
void LaunchBuilder::finish_deferred(AgentSpec& agent, const TileShare& at) {
  const Part& part = at.parts[0];
  if (kernel.bug == Bug::kEntryWithItsResult) write_row_entry(agent, at, 0);
  for (int n = 0; n < kernel.tiles_n * kernel.cluster_n; ++n)
    wait_for_entry(agent, row_name("entry", part, 0, n),
                   tag(number, Kind::kSlot, slot_owner.at({part.image, part.slot, n}) * kernel.levels));
  store(agent, at, Kind::kFinal);
}

// A warpgroup's tiles of a row, which wait in memory and have written their entries of the first level: a pass for each
// level. It begins with the shares of all of these tiles, which wait for the pass before alone; then each tile waits
// for the shares of all across, and writes its entry of the next level, or its result.
void LaunchBuilder::pass_over_row(AgentSpec& agent, const std::vector<TileShare>& row) {
  const int across = kernel.tiles_n * kernel.cluster_n;
  const bool apart = kernel.bug != Bug::kSharesWithTheirTile;
  for (int level = 0; level < kernel.levels; ++level) {
    const auto value = [&](Kind kind, const Part& part, int n) {
      return tag(number, kind, slot_owner.at({part.image, part.slot, n}) * kernel.levels + level);
    };
    const auto share = [&](const TileShare& at) {
      const Part& part = at.parts[0];
      for (int n = 0; n < across; ++n)
        wait_for_entry(agent, row_name("entry", part, level, n), value(Kind::kSlot, part, n));
      write_entry(agent, row_name("share", part, level, at.n), value(Kind::kSegment, part, at.n));
    };
    if (apart)
      for (const TileShare& at : row) share(at);
    for (const TileShare& at : row) {
      if (!apart) share(at);
      for (int n = 0; n < across; ++n)
        wait_for_entry(agent, row_name("share", at.parts[0], level, n), value(Kind::kSegment, at.parts[0], n));
      if (level + 1 < kernel.levels)
        write_row_entry(agent, at, level + 1);
      else
        store(agent, at, Kind::kFinal);
    }
  }
}

// What a tile has of a level's reductions over rows goes to its place. The last to come to a segment of a column of
// tiles merges its places into the first of them, the last segment the column, the last column of the image all of
// them: into an entry for which every tile waits or, behind the last level, into a stored result.
void LaunchBuilder::reduce_over_rows(AgentSpec& agent, const TileShare& at, int level) {
  const Part& part = at.parts[0];
  const int across = kernel.tiles_n * kernel.cluster_n, shares = slots[part.image], all = kernel.levels + 1;
  const std::string of = fmt::format("level {} of image {}", level, part.image);
  const auto place = [&](int slot, int n) { return fmt::format("share of {}, rows {}, channels {}", of, slot, n); };
  const auto column = [&](int n) { return fmt::format("column of {}, channels {}", of, n); };
  const auto of_column = [&](int n) { return tag(number, Kind::kSegment, (part.image * across + n) * all + level); };
  const auto access = [&](Op op, const std::string& name, uint32_t value) {
    agent.code.push_back({op, Order::kRelaxed, uint16_t(workspace_location(name)), 1, 0, value});
  };
  std::vector<size_t> patches;
  const auto go_on_if_last = [&](const std::string& name, int arrivals) {
    arrive(agent, counter("counter of " + name, arrivals), arrivals, arrival_order());
    patches.push_back(agent.code.size());
    agent.code.push_back({Op::kSkipUnlessLast});
  };
  access(Op::kWrite, place(part.slot, at.n), tag(number, Kind::kSlot, at.number * all + level));
  const int size = kernel.segment_slots, segments = (shares + size - 1) / size;
  const auto written = [&](Kind kind, int slot) {
    return tag(number, kind, slot_owner.at({part.image, slot, at.n}) * all + level);
  };
  if (size > 1) {
    const int first = part.slot / size * size, members = std::min(size, shares - first);
    if (kernel.bug != Bug::kSegmentUncounted)
      go_on_if_last(fmt::format("segment {} of {}", part.slot / size, column(at.n)), members);
    for (int slot = first; slot < first + members; ++slot)
      access(Op::kRead, place(slot, at.n), written(Kind::kSlot, slot));
    access(Op::kWrite, place(first, at.n), written(Kind::kPartial, first));
  }
  go_on_if_last(column(at.n), kernel.bug == Bug::kSegmentUncounted && size > 1 ? shares : segments);
  for (int segment = 0; segment < segments; ++segment)
    access(Op::kRead, place(segment * size, at.n), written(size > 1 ? Kind::kPartial : Kind::kSlot, segment * size));
  access(Op::kWrite, column(at.n), of_column(at.n));
  if (kernel.bug != Bug::kColumnForAll) go_on_if_last("all of " + of, across);
  for (int n = 0; n < across; ++n) access(Op::kRead, column(n), of_column(n));
  const uint32_t result = tag(number, Kind::kStatistics, part.image * all + level);
  if (level < kernel.levels)
    write_entry(agent, level_name(part.image, level), result);
  else
    access(Op::kWrite, "stored result of " + of, result);
  for (const size_t patch : patches) agent.code[patch].value = uint32_t(agent.code.size());
}

std::string LaunchBuilder::level_name(int image, int level) const {
  return fmt::format("result of level {} of image {}", kernel.bug == Bug::kLevelsShareEntries ? 0 : level, image);
}

void LaunchBuilder::wait_for_level(AgentSpec& agent, const TileShare& at, int level) {
  const int image = at.parts[0].image;
  wait_for_entry(agent, level_name(image, level), tag(number, Kind::kStatistics, image * (kernel.levels + 1) + level));
}

void LaunchBuilder::exchange_over_rows(AgentSpec& agent, const TileShare& at) {
  const bool late = kernel.bug == Bug::kNextLevelFirst;
  for (int level = 0; level < kernel.levels; ++level) {
    if (late) wait_for_level(agent, at, level);
    reduce_over_rows(agent, at, level);
    if (!late) wait_for_level(agent, at, level);
  }
  store(agent, at, Kind::kFinal);
  reduce_over_rows(agent, at, kernel.levels);
}

// A warpgroup's tiles of an image, which wait in memory and have added to the first level: a pass for each level.
void LaunchBuilder::pass_over_image(AgentSpec& agent, const std::vector<TileShare>& image) {
  for (int level = 0; level < kernel.levels; ++level)
    for (const TileShare& at : image) {
      wait_for_level(agent, at, level);
      if (level + 1 == kernel.levels) store(agent, at, Kind::kFinal);
      reduce_over_rows(agent, at, level + 1);
    }
}

// Split-K by tags: the first part of a tile adds the others', in the order of k, as their flags go up, and has the
// tile. Returns whether it is the first.
bool LaunchBuilder::add_partials(AgentSpec& agent, const TileShare& at) {
  const auto name = [&](int part) { return fmt::format("partial sum {} of tile {}", part, at.number); };
  const auto value = [&](int part) { return tag(number, Kind::kPartial, at.number * kernel.split_k + part); };
  const auto flag_of = [&](int part) { return uint16_t(counter("flag of " + name(part), 1)); };
  if (at.k_part == 0) {
    for (int part = 1; part < kernel.split_k; ++part) {
      agent.code.push_back({Op::kWaitFlag, flag_order(), flag_of(part)});
      agent.code.push_back({Op::kRead, Order::kRelaxed, uint16_t(workspace_location(name(part))), 1, 0, value(part)});
    }
    return true;
  }
  const Instruction sum{Op::kWrite, Order::kRelaxed, uint16_t(workspace_location(name(at.k_part))), 1,
                        0,          value(at.k_part)};
  const bool late = kernel.bug == Bug::kPartialUnpublished, release = kernel.bug != Bug::kNoFlagRelease;
  if (!late) agent.code.push_back(sum);
  agent.code.push_back({Op::kSetFlag, release ? Order::kRelease : Order::kRelaxed, flag_of(at.k_part)});
  if (late) agent.code.push_back(sum);
  tags_written.push_back(flag_of(at.k_part));
  return false;
}

// For each of the CTA's tiles, in order: merges its share of the segment's slots.
void LaunchBuilder::merge_segments(AgentSpec& agent, int cluster, int rank) {
  for (int item = 0; item < items_of(cluster); ++item)
    for (int half = 0; half < halves(); ++half) {
      const TileShare at = place_of(cluster, rank, half, item);
      if (at.k_part > 0) break;
      for (const Part& part : at.parts) {
        const int first = part.slot / kernel.segment_slots * kernel.segment_slots;
        for (int slot = first; slot < std::min(first + kernel.segment_slots, slots[part.image]); ++slot)
          wait_for_entry(agent, slot_name(part.image, slot, at.n),
                         tag(number, Kind::kSlot, slot_owner.at({part.image, slot, at.n})));
        write_entry(agent, share_name(part.image, part.slot, at.n), tag(number, Kind::kSegment, at.number));
      }
    }
}

// A word of the CTA's shared memory: the tiles of a consumer whose raw stores are written.
int LaunchBuilder::stored_count(const AgentSpec& agent, int warpgroup) {
  return system.atomic(fmt::format("launch {} block {} consumer {}'s tiles stored", number,
                                   agent.cta - system.launches[number].first_cta, warpgroup),
                       0);
}

void LaunchBuilder::tell_stored(AgentSpec& agent, int warpgroup, int count, int pending) {
  const int atomic = stored_count(agent, warpgroup);
  const bool release = kernel.bug != Bug::kNoFlagRelease;
  if (kernel.bug != Bug::kReadWaitOnly)
    agent.code.push_back(
        {Op::kWaitGroup, Order::kRelaxed, 0, 1, 0, uint32_t(pending + (kernel.bug == Bug::kWrongGroup))});
  if (kernel.bug != Bug::kNoProxyFence) agent.code.push_back({Op::kProxyFence});
  agent.code.push_back(
      {Op::kSetCount, release ? Order::kRelease : Order::kRelaxed, uint16_t(atomic), 1, 0, uint32_t(count)});
  system.atomics[atomic].final = uint32_t(count);
}

// The CTA's tiles in order, whichever consumer stored them.
void LaunchBuilder::normalise_again(AgentSpec& agent, int cluster, int rank) {
  const bool ping_pong = kernel.schedule == Schedule::kPingPong;
  for (int item = 0; item < items_of(cluster); ++item)
    for (int half = 0; half < halves(); ++half) {
      const TileShare at = place_of(cluster, rank, half, item);
      const int consumer = ping_pong ? item % 2 : half, count = (ping_pong ? item / 2 : item) + 1;
      wait_for_entries(agent, at);
      agent.code.push_back(
          {Op::kWaitCount, flag_order(), uint16_t(stored_count(agent, consumer)), 1, 0, uint32_t(count)});
      agent.code.push_back({Op::kRead, Order::kRelaxed, uint16_t(at.output), 1, 0, tag(number, Kind::kRaw, at.number)});
      for (const Part& part : at.parts)
        wait_for_entry(agent, slot_name(part.image, part.slot, at.n), tag(number, Kind::kSlot, at.number));
      store(agent, at, Kind::kFinal);
    }
  if (kernel.bug != Bug::kLeaveEarly) agent.code.push_back({Op::kWaitGroupRead, Order::kRelaxed, 0, 1, 0, 0});
}

}  // namespace unisono::simulator
