// Normalisation statistics shared by the blocks of one launch.
//
// Every warpgroup writes the moments of its rows to a slot of its own, one entry a unit. A unit is the largest run of
// channels (kUnit) that crosses neither a group's border nor a tile's, gcd(channels of a group, kTileN). An entry is
// sixteen bytes (mean, M2, count, tag) stored as one; the tag is the launch's epoch plus one. A reader polls the entry
// itself until the tag is this launch's, so that neither counters nor fences stand between writer and reader, and a
// replay needs no memset. Where an image has more entries than its readers load at once, its slots form teams of up to
// 128. Each member of a team merges a share of its units over the team; whoever normalises merges the teams. Every
// merge has a fixed order, whoever performs it: the same bits each run.
#pragma once
#include "unisono/exchange/moments.cuh"
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/sm90_barrier.cuh"

namespace unisono {

UNISONO_DEVICE void write_entry(Entry* entry, const Moments& m, u32 epoch) {
  delay_point();
  store_whole(entry, {__float_as_uint(m.mean), __float_as_uint(m.m2), __float_as_uint(m.count), epoch + 1});
}

constexpr u32 kPollPause = 100;  // ns; thousands of threads poll: leave the cache to the main loops

// Merges `count` entries that lie `stride` apart, in order, each once it is written. kBatch loads are in flight. Means
// are relative to the first, as Merger's are; a batch is merged at once, its mean first.
template <int kBatch>
UNISONO_DEVICE Moments merge_entries(const Entry* entry, size_t stride, int count, u32 epoch) {
  float pivot = 0.f;
  Moments all{0.f, 0.f, 0.f};
  for (int base = 0; base < count; base += kBatch) {
    uint4 values[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) values[i] = {0, 0, 0, base + i < count ? epoch : epoch + 1};
    Watchdog watchdog;
    delay_point();
    for (;;) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (values[i].w != epoch + 1) values[i] = load_whole(entry + (base + i) * stride);
      bool complete = true;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) complete &= values[i].w == epoch + 1;
      if (complete) break;
      __nanosleep(kPollPause);
      watchdog.tick();
    }
    if (base == 0) pivot = __uint_as_float(values[0].x);
    float rows = 0.f, sum = 0.f, m2 = 0.f;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      rows += __uint_as_float(values[i].z);
      sum = fmaf(__uint_as_float(values[i].z), __uint_as_float(values[i].x) - pivot, sum);
    }
    const float mean = rows > 0.f ? __fdividef(sum, rows) : 0.f;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float delta = __uint_as_float(values[i].x) - pivot - mean;
      m2 += fmaf(delta * delta, __uint_as_float(values[i].z), __uint_as_float(values[i].y));
    }
    if (base == 0)
      all = {rows, mean, m2};
    else
      merge(all, rows, mean, m2);
  }
  return {all.count, all.mean + pivot, all.m2};
}

// What `lanes` neighbouring lanes have, a power of two of them, in the first; by whole warps.
UNISONO_DEVICE Moments merge_lanes(Moments m, int lanes) {
  __syncwarp();
  const float pivot = __shfl_sync(~0u, m.mean, int(threadIdx.x) & 31 & ~(lanes - 1)), own = m.mean - pivot,
              count = m.count;
  float sum = own * count;
  for (int distance = 1; distance < lanes; distance *= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
    m.count += __shfl_xor_sync(~0u, m.count, distance);
  }
  const float mean = m.count > 0.f ? __fdividef(sum, m.count) : 0.f, delta = own - mean;
  m.m2 = fmaf(delta * delta, count, m.m2);
  for (int distance = 1; distance < lanes; distance *= 2) m.m2 += __shfl_xor_sync(~0u, m.m2, distance);
  m.mean = mean + pivot;
  return m;
}

// The share of team work that falls to the owner of `slot`: some of the tile's units, over the whole team. By whole
// warps, `warp` of `warps`: a unit a warp, an entry a lane, then a tree.
template <int kUnit>
UNISONO_DEVICE void merge_share(const NormParams& p, int image, int slot, int first_channel, int tile_channels,
                                int channels, u32 epoch, int warp, int warps) {
  const int units = channels / kUnit, first_unit = first_channel / kUnit;
  const int team = slot / p.team_slots, first = team * p.team_slots, member = slot - first;
  const int members = smaller(p.team_slots, p.slots_per_image - first), lane = threadIdx.x & 31;
  const int share = divide_up(tile_channels / kUnit, members), begin = first_unit + member * share;
  const int end = smaller(smaller(begin + share, first_unit + tile_channels / kUnit), units);
  for (int unit = begin + warp; unit < end; unit += warps) {
    const Entry* entry = p.slots + (size_t(image) * p.slots_per_image + first + lane) * units + unit;
    const Moments m =
        merge_lanes(merge_entries<4>(entry, size_t(32) * units, divide_up(larger(0, members - lane), 32), epoch), 32);
    if (lane == 0) write_entry(p.teams + (size_t(image) * p.teams_per_image + team) * units + unit, m, epoch);
  }
}

// The threads that gather statistics together: a warpgroup by its named barrier, or a warp.
template <int kAtOnce>
struct WarpgroupCrew {
  static constexpr int kThreads = 128, kBatch = kAtOnce;  // loads in flight beside the accumulators
  int thread, barrier;
  UNISONO_DEVICE void sync() const { named_barrier(barrier, 128); }
};
struct WarpCrew {
  static constexpr int kThreads = 32, kBatch = 4;
  int thread;
  UNISONO_DEVICE void sync() const { __syncwarp(); }
};

// Statistics of the groups of kColumns channels from first_channel, once the image is complete. Groups may begin before
// the first channel and end behind the last. `scratch` holds kScratch moments; groups too wide for it take a slow path.
template <class Crew, int kColumns, int kScratch, int kUnit>
struct GroupStatistics {
  const NormParams& p;
  const Crew crew;
  Moments* const scratch;
  const u32 epoch;
  const int image, first_channel, channels, last, begin, count;  // channels up to `last`; the units of their groups
  const size_t units;
  const bool fits;
  static constexpr int kEach = divide_up(kColumns, Crew::kThreads);
  int group_unit[kEach];  // of this thread's channels: where their groups' units begin, from `begin`

  UNISONO_DEVICE GroupStatistics(const NormParams& p, const Crew& crew, Moments* scratch, u32 epoch, int image,
                                 int first_channel, int channels)
      : p(p),
        crew(crew),
        scratch(scratch),
        epoch(epoch),
        image(image),
        first_channel(first_channel),
        channels(channels),
        last(smaller(first_channel + kColumns, channels)),
        begin(divided(first_channel, p.by_group_channels) * p.group_channels / kUnit),
        count((divided(last - 1, p.by_group_channels) + 1) * p.group_channels / kUnit - begin),
        units(channels / kUnit),
        fits(count <= kScratch) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      group_unit[j] =
          divided(first_channel + crew.thread + Crew::kThreads * j, p.by_group_channels) * p.group_channels / kUnit -
          begin;
  }

  UNISONO_DEVICE const Entry* teams() const { return p.teams + size_t(image) * p.teams_per_image * units; }

  // Waits for the image; leaves the moments of the groups' units in the scratch, if they fit. The teams of a unit are
  // divided among `parts` neighbouring lanes, a power of two, so that all entries are loaded at once; a tree of
  // shuffles merges what they have.
  UNISONO_DEVICE void gather() const {
    if (!fits) return;
    constexpr int kLog = Crew::kThreads == 128 ? 7 : 5;
    static_assert(Crew::kThreads == 1 << kLog, "lanes of a unit by shifts");
    const int room = kLog - (32 - __clz(count - 1)),
              shift = larger(0, smaller(smaller(5, room), 31 - __clz(p.teams_per_image))), parts = 1 << shift;
    const int part = crew.thread & (parts - 1);
    for (int i = crew.thread >> shift; (i & ~((32 >> shift) - 1)) < count;
         i += Crew::kThreads >> shift) {  // whole warps
      const bool exists = i < count;
      Moments m = merge_entries<Crew::kBatch>(teams() + part * units + begin + i, units << shift,
                                              exists ? (p.teams_per_image - part + parts - 1) >> shift : 0, epoch);
      if (shift > 0) m = merge_lanes(m, parts);
      if (exists && part == 0) scratch[i] = m;
    }
    crew.sync();
  }

  // Thread t calls emit(i, n, mean, variance) for the channels n = t + kThreads * i of the tile that exist, and once a
  // group that begins in the tile record(group, mean, variance) if `recorder`.
  template <class Emit, class Record>
  UNISONO_DEVICE void emit(bool recorder, Emit&& emit, Record&& record) const {
    const int width = p.group_channels;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int n = crew.thread + Crew::kThreads * j, c = first_channel + n;
      if (n >= kColumns || c >= last) break;
      const Moments all =
          fits ? merge_units(scratch + group_unit[j], width / kUnit) : merge_group(group_unit[j], width / kUnit);
      const float variance = quotient(all.m2, all.count);
      emit(j, n, all.mean, variance);
      if (const int first = (begin + group_unit[j]) * kUnit; recorder && c == first)
        record(divided(first, p.by_group_channels), all.mean, variance);
    }
    crew.sync();
  }

  static UNISONO_DEVICE Moments merge_units(const Moments* unit, int units) {
    Moments all = unit[0];
    if (units == 1) return all;
    Merger merger;
    for (int i = 0; i < units; ++i) merger.add(unit[i].count, unit[i].mean, unit[i].m2);
    return merger.total();
  }
  UNISONO_DEVICE Moments merge_group(int first, int count) const {
    Merger merger;
    for (int i = 0; i < count; ++i) {
      const Moments m = merge_entries<4>(teams() + begin + first + i, units, p.teams_per_image, epoch);
      merger.add(m.count, m.mean, m.m2);
    }
    return merger.total();
  }
};

UNISONO_DEVICE u32 epoch_of(const EpochParams& p) {
  return u32(divided(int(*static_cast<const volatile u32*>(p.exits)), p.by_blocks));
}

// Called by one thread of each block ahead of all else. In a checked build blocks that come are counted, too, behind
// those that left: both counts name the same launch, unless two launches with this workspace are in flight at once.
UNISONO_DEVICE void enter_launch(const EpochParams& p) {
  if constexpr (kChecked) {
    const u32 came = increment_wrapping(p.exits + 1, p.last);
    if (u32(divided(int(came), p.by_blocks)) != epoch_of(p)) end_with_workspace_in_use();
  }
}

// Called by one thread of each block once all its warps have the epoch and are done with the workspace. Nobody waits
// for it.
UNISONO_DEVICE void leave_launch(const EpochParams& p) {
  delay_point();
  count_wrapping(p.exits, p.last);
}

}  // namespace unisono
