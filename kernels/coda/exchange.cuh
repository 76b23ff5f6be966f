// Normalisation statistics shared by the blocks of one launch.
//
// Every warpgroup writes the moments of its rows to a slot of its own, one entry a unit. A unit is the largest run of
// channels (kUnit) that crosses neither a group's border nor a tile's, gcd(channels of a group, kTileN). An entry is sixteen bytes
// (mean, M2, count, tag) stored as one; the tag is the launch's epoch plus one. A reader polls the entry itself until
// the tag is this launch's, so that neither counters nor fences stand between writer and reader, and a replay needs
// no memset. The slots of an image form teams of about the square root of their number. Each member of a team merges a
// share of its units over the team; whoever normalises merges the teams. Every merge has a fixed order, whoever
// performs it: the same bits each run.
#pragma once
#include "barrier.cuh"
#include "moments.cuh"

namespace coda {

CODA_DEVICE void write_entry(Entry* entry, const Moments& m, u32 epoch) {
    delay_point();
    store_whole(entry, {__float_as_uint(m.mean), __float_as_uint(m.m2), __float_as_uint(m.count), epoch + 1});
}

constexpr u32 kPollPause = 100;  // ns; thousands of threads poll: leave the cache to the main loops

// Merges `count` entries that lie `stride` apart, in order. kWait: waits for each; otherwise false if one is not written.
// kBatch loads are in flight.
template <bool kWait, int kBatch>
CODA_DEVICE bool merge_entries(Moments& all, const Entry* entry, size_t stride, int count, u32 epoch) {
    Merger merger;
    bool written = true;
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
            if (!kWait) written &= complete;
            if (!kWait || complete) break;
            __nanosleep(kPollPause);
            watchdog.tick();
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (base + i < count) merger.add(__uint_as_float(values[i].z), __uint_as_float(values[i].x), __uint_as_float(values[i].y));
    }
    all = merger.total();
    return written;
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
        Moments m;
        merge_entries<true, 1>(m, entry, size_t(32) * units, divide_up(larger(0, members - lane), 32), epoch);
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

// Statistics of the groups of kColumns channels from first_channel, by 128 threads of a named barrier: thread t calls
// emit(i, n, mean, variance) for the channels n = t + 128 i of the tile that exist, and once a group that begins in the tile
// record(group, mean, variance) if `recorder`. kWait: waits for the image to be complete; otherwise returns false if it is not (what was
// emitted is then worthless). `scratch` holds kScratch moments, `votes` eight words. Groups may begin before the first channel and end
// behind the last. Groups too wide for the scratch take a slow path.
template <bool kWait, int kColumns, int kScratch, int kUnit, class Emit, class Record>
CODA_DEVICE bool group_statistics(const NormParams& p, int image, int first_channel, int channels, u32 epoch, bool recorder,
                                  Moments* scratch, u32* votes, int thread, int barrier, const Trace& trace, Emit&& emit, Record&& record) {
    const int width = p.group_channels;
    const int last = smaller(first_channel + kColumns, channels);  // one past
    const int begin = first_channel / width * width / kUnit, count = divide_up(last, width) * width / kUnit - begin;
    const size_t units = channels / kUnit;
    const Entry* teams = p.teams + size_t(image) * p.teams_per_image * units;
    const bool fits = count <= kScratch;
    if (fits) {
        // The teams of a unit are divided among `parts` threads, so that all entries are loaded at once.
        const int parts = larger(1, smaller(smaller(128, kScratch) / count, p.teams_per_image)), run = divide_up(p.teams_per_image, parts);
        bool written = true;
        for (int i = thread; i < count * parts; i += 128) {
            const int part = i / count, first = part * run;
            written &= merge_entries<kWait, 4>(scratch[i], teams + first * units + begin + i % count, units,
                                               larger(0, smaller(run, p.teams_per_image - first)), epoch);
        }
        if (!named_barrier_all(barrier, written, votes)) return false;
        trace.mark(6);
        for (int i = thread; i < count; i += 128) {
            Merger merger;
            for (int part = 0; part < parts; ++part) {
                const Moments m = scratch[part * count + i];
                merger.add(m.count, m.mean, m.m2);
            }
            scratch[i] = merger.total();
        }
        named_barrier(barrier, 128);
        trace.mark(7);
    }
    bool written = true;
#pragma unroll
    for (int j = 0; j < divide_up(kColumns, 128); ++j) {
        const int n = thread + 128 * j, c = first_channel + n;
        if (n >= kColumns || c >= last) break;
        const int group = c / width, first = group * width / kUnit;
        Merger merger;
        bool complete = true;
        for (int i = 0; i < width / kUnit; ++i) {
            Moments m;
            if (fits) m = scratch[first - begin + i];
            else complete &= merge_entries<kWait, 4>(m, teams + first + i, units, p.teams_per_image, epoch);
            merger.add(m.count, m.mean, m.m2);
        }
        const Moments all = merger.total();
        const float variance = all.m2 / all.count;
        emit(j, n, all.mean, variance);
        if (recorder && complete && c == group * width) record(group, all.mean, variance);
        written &= complete;
    }
    return named_barrier_all(barrier, written, votes + 4);
}

// Called by one thread of each block once all its warps are done with the workspace. The last block advances the
// epoch; the counter of exits wraps to 0 there, whatever the grid.
CODA_DEVICE void leave_launch(const EpochParams& p, u32 epoch) {
    delay_point();
    u32 before;
    asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before) : "l"(p.exits), "r"(gridDim.x - 1) : "memory");
    if (before == gridDim.x - 1) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p.epoch), "r"(epoch + 1) : "memory");
}

}  // namespace coda
