// Normalisation statistics shared by the blocks of one launch.
//
// Every warpgroup writes the moments of its rows to a slot of its own, one entry a unit. A unit is the largest run of
// channels (kUnit) that crosses neither a group's border nor a tile's, gcd(channels of a group, kTileN). An entry is sixteen bytes
// (mean, M2, count, tag) stored as one; the tag is the launch's epoch plus one. A reader polls the entry itself until
// the tag is this launch's, so that neither counters nor fences stand between writer and reader, and a replay needs
// no memset. Where an image has more entries than its readers load at once, its slots form teams of up to 128. Each member of a team
// merges a share of its units over the team; whoever normalises merges the teams. Every merge has a fixed order, whoever
// performs it: the same bits each run.
#pragma once
#include "barrier.cuh"
#include "global.cuh"
#include "moments.cuh"

namespace coda {

CODA_DEVICE void write_entry(Entry* entry, const Moments& m, u32 epoch) {
    delay_point();
    store_whole(entry, {__float_as_uint(m.mean), __float_as_uint(m.m2), __float_as_uint(m.count), epoch + 1});
}

constexpr u32 kPollPause = 100;  // ns; thousands of threads poll: leave the cache to the main loops

// Merges `count` entries that lie `stride` apart, in order, each once it is written. kBatch loads are in flight.
template <int kBatch> CODA_DEVICE Moments merge_entries(const Entry* entry, size_t stride, int count, u32 epoch) {
    Merger merger;
    for (int base = 0; base < count; base += kBatch) {
        uint4 values[kBatch];
        Watchdog watchdog;
        delay_point();
        for (;;) {
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (base + i < count) values[i] = load_whole(entry + (base + i) * stride);
            bool complete = true;
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (base + i < count) complete &= values[i].w == epoch + 1;
            if (complete) break;
            __nanosleep(kPollPause);
            watchdog.tick();
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (base + i < count) merger.add(__uint_as_float(values[i].z), __uint_as_float(values[i].x), __uint_as_float(values[i].y));
    }
    return merger.total();
}

// The share of team work that falls to the owner of `slot`: some of the tile's units, over the whole team. By whole
// warps, `warp` of `warps`: a unit a warp, an entry a lane, then a tree.
template <int kUnit>
CODA_DEVICE void merge_share(const NormParams& p, int image, int slot, int first_channel, int tile_channels, int channels, u32 epoch,
                             int warp, int warps) {
    const int units = channels / kUnit, first_unit = first_channel / kUnit;
    const int team = slot / p.team_slots, first = team * p.team_slots, member = slot - first;
    const int members = smaller(p.team_slots, p.slots_per_image - first), lane = threadIdx.x & 31;
    const int share = divide_up(tile_channels / kUnit, members), begin = first_unit + member * share;
    const int end = smaller(smaller(begin + share, first_unit + tile_channels / kUnit), units);
    for (int unit = begin + warp; unit < end; unit += warps) {
        const Entry* entry = p.slots + (size_t(image) * p.slots_per_image + first + lane) * units + unit;
        Moments m = merge_entries<4>(entry, size_t(32) * units, divide_up(larger(0, members - lane), 32), epoch);
        __syncwarp();
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const float count = __shfl_down_sync(~0u, m.count, distance), mean = __shfl_down_sync(~0u, m.mean, distance);
            const float m2 = __shfl_down_sync(~0u, m.m2, distance);
            merge(m, count, mean, m2);  // lanes whose partner lies outside the warp are not used again
        }
        if (lane == 0) write_entry(p.teams + (size_t(image) * p.teams_per_image + team) * units + unit, m, epoch);
    }
}

// The threads that gather statistics together: a warpgroup by its named barrier, or a warp.
struct WarpgroupCrew {
    static constexpr int kThreads = 128, kBatch = 4;  // loads in flight beside the accumulators
    int thread, barrier;
    CODA_DEVICE void sync() const { named_barrier(barrier, 128); }
};
struct WarpCrew {
    static constexpr int kThreads = 32, kBatch = 4;
    int thread;
    CODA_DEVICE void sync() const { __syncwarp(); }
};

// Statistics of the groups of kColumns channels from first_channel, once the image is complete. Groups may begin before the first channel and
// end behind the last. `scratch` holds kScratch moments; groups too wide for it take a slow path.
template <class Crew, int kColumns, int kScratch, int kUnit> struct GroupStatistics {
    const NormParams& p;
    const Crew crew;
    Moments* const scratch;
    const u32 epoch;
    const int image, first_channel, channels, last, begin, count;  // channels up to `last`; the units of their groups
    const size_t units;
    const bool fits;

    CODA_DEVICE GroupStatistics(const NormParams& p, const Crew& crew, Moments* scratch, u32 epoch, int image, int first_channel, int channels)
        : p(p), crew(crew), scratch(scratch), epoch(epoch), image(image), first_channel(first_channel), channels(channels),
          last(smaller(first_channel + kColumns, channels)), begin(first_channel / p.group_channels * p.group_channels / kUnit),
          count(divide_up(last, p.group_channels) * p.group_channels / kUnit - begin), units(channels / kUnit), fits(count <= kScratch) {}

    CODA_DEVICE const Entry* teams() const { return p.teams + size_t(image) * p.teams_per_image * units; }

    // Waits for the image; leaves the moments of the groups' units in the scratch, if they fit.
    CODA_DEVICE void gather() const {
        if (!fits) return;
        // The teams of a unit are divided among `parts` threads, so that all entries are loaded at once.
        const int parts = larger(1, smaller(smaller(Crew::kThreads, kScratch) / larger(1, count), p.teams_per_image)), run = divide_up(p.teams_per_image, parts);
        for (int i = crew.thread; i < count * parts; i += Crew::kThreads) {
            const int part = i / count, first = part * run;
            scratch[i] = merge_entries<Crew::kBatch>(teams() + first * units + begin + i % count, units, larger(0, smaller(run, p.teams_per_image - first)), epoch);
        }
        crew.sync();
        if (parts == 1) return;
        for (int i = crew.thread; i < count; i += Crew::kThreads) {
            Merger merger;
            for (int part = 0; part < parts; ++part) {
                const Moments m = scratch[part * count + i];
                merger.add(m.count, m.mean, m.m2);
            }
            scratch[i] = merger.total();
        }
        crew.sync();
    }

    // Thread t calls emit(i, n, mean, variance) for the channels n = t + kThreads * i of the tile that exist, and once a group that begins in
    // the tile record(group, mean, variance) if `recorder`.
    template <class Emit, class Record> CODA_DEVICE void emit(bool recorder, Emit&& emit, Record&& record) const {
        const int width = p.group_channels;
#pragma unroll
        for (int j = 0; j < divide_up(kColumns, Crew::kThreads); ++j) {
            const int n = crew.thread + Crew::kThreads * j, c = first_channel + n;
            if (n >= kColumns || c >= last) break;
            const int group = c / width, first = group * width / kUnit;
            Merger merger;
            for (int i = 0; i < width / kUnit; ++i) {
                const Moments m = fits ? scratch[first - begin + i] : merge_entries<4>(teams() + first + i, units, p.teams_per_image, epoch);
                merger.add(m.count, m.mean, m.m2);
            }
            const Moments all = merger.total();
            const float variance = all.m2 / all.count;
            emit(j, n, all.mean, variance);
            if (recorder && c == group * width) record(group, all.mean, variance);
        }
        crew.sync();
    }
};

// Called by one thread of each block once all its warps are done with the workspace. The last block advances the
// epoch; the counter of exits wraps to 0 there, whatever the grid.
CODA_DEVICE void leave_launch(const EpochParams& p, u32 epoch) {
    delay_point();
    if (increment_wrapping(p.exits, gridDim.x - 1) == gridDim.x - 1) store_relaxed(p.epoch, epoch + 1);
}

}  // namespace coda
