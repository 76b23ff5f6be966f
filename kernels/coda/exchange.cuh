// Normalisation statistics shared by the blocks of one launch.
//
// Every warpgroup writes the moments of its rows, per channel, to a slot of its own: sixteen bytes (mean, M2, count,
// tag) stored as one. The tag is the launch's epoch plus one: a reader polls the value itself until the tag is this
// launch's, so that neither counters nor fences stand between writer and reader, and a replay needs no memset. The
// slots of an image form teams of about the square root of their number. Each member of a team merges a share of the
// channels over the team; whoever normalises merges the teams. All merges are in index order, whoever performs
// them: the same bits each run.
#pragma once
#include "barrier.cuh"
#include "moments.cuh"

namespace coda {

struct GroupNormParams {
    uint4* slots;  // (images, slots, channels)
    uint4* teams;  // (images, teams, channels); `slots` itself if a team is one slot
    u32* epoch;    // launches that used this workspace so far
    u32* exits;    // blocks that have left this launch
    int slots_per_image, team_slots, teams_per_image, group_channels;
    float epsilon;
    float *mean, *rstd;  // (images, channels / group_channels) to store, or null
};

CODA_DEVICE void write_slot(uint4* slot, const Moments& m, u32 epoch) {
    store_whole(slot, {__float_as_uint(m.mean), __float_as_uint(m.m2), __float_as_uint(m.count), epoch + 1});
}

// Merges `count` slots that lie `stride` apart, waiting for each; kBatch loads in flight.
template <int kBatch> CODA_DEVICE Moments merge_slots(const uint4* slot, size_t stride, int count, u32 epoch) {
    Moments all{0.f, 0.f, 0.f};
    for (int base = 0; base < count; base += kBatch) {
        uint4 values[kBatch];
        Watchdog watchdog;
        bool complete;
        do {
            complete = true;
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (base + i < count) values[i] = load_whole(slot + (base + i) * stride);
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (base + i < count) complete &= values[i].w == epoch + 1;
            watchdog.tick();
        } while (!complete);
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (base + i < count) merge(all, __uint_as_float(values[i].z), __uint_as_float(values[i].x), __uint_as_float(values[i].y));
    }
    return all;
}

// The share of team work that falls to the owner of `slot`: some of the tile's channels, over the whole team.
CODA_DEVICE void merge_share(const GroupNormParams& p, int image, int slot, int first_channel, int tile_channels, int channels, u32 epoch,
                             int thread, int threads) {
    if (p.team_slots == 1) return;
    const int team = slot / p.team_slots, first = team * p.team_slots, member = slot - first;
    const int members = smaller(p.team_slots, p.slots_per_image - first);
    const int share = divide_up(tile_channels, members), begin = first_channel + member * share;
    const int end = smaller(smaller(begin + share, first_channel + tile_channels), channels);
    for (int c = begin + thread; c < end; c += threads) {
        const Moments m = merge_slots<4>(p.slots + (size_t(image) * p.slots_per_image + first) * channels + c, channels, members, epoch);
        write_slot(p.teams + (size_t(image) * p.teams_per_image + team) * channels + c, m, epoch);
    }
}

// Mean and 1/sqrt(variance + epsilon) of the groups of kColumns channels from first_channel, to mean[] and rstd[] in shared
// memory, by 128 threads of a named barrier. `pixels`: of an image. `scratch` holds kScratch moments of channels. Groups
// may begin before the first channel and end behind the last. Groups too wide for the scratch take a slow path.
template <int kColumns, int kScratch, int kBatch>
CODA_DEVICE void group_statistics(const GroupNormParams& p, int image, int pixels, int first_channel, int channels, u32 epoch, bool record,
                                  float2* scratch, float* mean, float* rstd, int thread, int barrier) {
    const int width = p.group_channels;
    const int last = smaller(first_channel + kColumns, channels);  // one past
    const int begin = first_channel / width * width, end = divide_up(last, width) * width;
    const uint4* teams = p.teams + size_t(image) * p.teams_per_image * channels;
    const bool fits = end - begin <= kScratch;
    const float count = float(pixels);
    if (fits)
        for (int c = begin + thread; c < end; c += 128) {
            const Moments m = merge_slots<kBatch>(teams + c, channels, p.teams_per_image, epoch);
            scratch[c - begin] = {m.mean, m.m2};
        }
    named_barrier(barrier, 128);
    for (int c = first_channel + thread; c < last; c += 128) {
        const int group = c / width;
        Moments all{0.f, 0.f, 0.f};
        if (fits) {  // every channel has the same count: sums need no weights
            const float2* part = scratch + group * width - begin;
            float sum = 0.f, m2 = 0.f;
            for (int i = 0; i < width; ++i) sum += part[i].x;
            all.mean = sum / float(width), all.count = count * float(width);
            for (int i = 0; i < width; ++i) {
                const float delta = part[i].x - all.mean;
                m2 += fmaf(delta * delta, count, part[i].y);
            }
            all.m2 = m2;
        } else {
            for (int i = 0; i < width; ++i) {
                const Moments m = merge_slots<kBatch>(teams + group * width + i, channels, p.teams_per_image, epoch);
                merge(all, m.count, m.mean, m.m2);
            }
        }
        const float inverse = rsqrtf(all.m2 / all.count + p.epsilon);
        mean[c - first_channel] = all.mean;
        rstd[c - first_channel] = inverse;
        if (record && c == group * width) {
            const size_t at = size_t(image) * (channels / width) + group;
            if (p.mean) p.mean[at] = all.mean;
            if (p.rstd) p.rstd[at] = inverse;
        }
    }
    named_barrier(barrier, 128);
}

// Called by one thread of each block once all its warps are done with the workspace. The last block advances the
// epoch; the counter of exits wraps to 0 there, whatever the grid.
CODA_DEVICE void leave_launch(const GroupNormParams& p, u32 epoch) {
    u32 before;
    asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before) : "l"(p.exits), "r"(gridDim.x - 1) : "memory");
    if (before == gridDim.x - 1) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p.epoch), "r"(epoch + 1) : "memory");
}

}  // namespace coda
