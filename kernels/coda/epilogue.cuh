// What a consumer warpgroup does with a tile's accumulators: visitors, statistics, normalisation, stores.
//
// A visitor is a struct that generated code supplies:
//   struct Params;                           operands' pointers and scalars
//   static constexpr int kColumns;           operands with axes [n] or [b,n]: one float a channel, loaded once a tile
//   static constexpr int kTensors;           operands with axes [m,n], in the output's layout and element type
//   template <int i> static float column(const Params&, int image, int channel);
//   template <int i> static const void* tensor(const Params&);
//   static float before(float x, const float* column, const float* tensor, const Params&);  ahead of the normalisation
//   static float after(float x, const float* column, const float* tensor, const Params&);   behind it, or all there is
//   static float scale(const Params&, int image, int channel), shift(...);                  of the normalisation
//   static constexpr bool kTensorsBefore;    whether `before` reads tensors
#pragma once
#include "group_norm.cuh"
#include "tiles.cuh"
#include "tma.cuh"

namespace coda {

enum class Norm {
    kNone,
    kResident,  // accumulators wait in registers for the image's statistics; one store
    kStreamed,  // centred values are stored, then re-read, normalised and stored in place
};

template <class Config, class Visitor> struct Epilogue {
    using Element = typename Config::Element;
    static constexpr int kN = Config::kTileN;
    static constexpr int kBlocks = Config::kWarpgroupRows / 64;  // matrix instructions down a warpgroup's rows
    static constexpr Norm kNorm = Config::kNorm;

    // Stores go in slices of 16 rows x kSlice channels, each by one warp for itself: no barrier between warps.
    static constexpr int kSlice = kN % 64 == 0 ? 64 : kN % 32 == 0 ? 32 : kN % 16 == 0 ? 16 : 8;
    static constexpr int kSliceBytes = 16 * kSlice * 2;
    static constexpr int kSlices = kN / kSlice;
    static constexpr int kStoreBuffers = Config::kStoreBuffers;
    static constexpr int kStaging = larger(kSliceBytes * kStoreBuffers, kNorm == Norm::kNone ? 0 : kN * 8);  // a warp

    // Column operands in shared memory: the visitor's, then mean, scale, shift of the normalisation.
    static constexpr int kNormColumns = kNorm == Norm::kNone ? 0 : 3;
    static constexpr int kColumns = Visitor::kColumns + kNormColumns;
    static constexpr int kMean = Visitor::kColumns, kScale = kMean + 1, kShift = kMean + 2;
    static constexpr int kColumnBytes = kColumns * kN * 4;

    static constexpr int kWarpgroupBytes = 4 * kStaging + kColumnBytes;

    const TensorMap& output;
    const ConvGeometry& geometry;
    const GroupNormParams& norm;
    const typename Visitor::Params& visitor;
    u8* const memory;  // this warpgroup's kWarpgroupBytes, aligned as a swizzled slice needs
    u32* const vote;
    const int thread;   // in the warpgroup
    const int barrier;  // a named barrier of the warpgroup
    const u32 epoch;

    // The rows and channels that this warpgroup holds.
    struct Place {
        int image, first_row, first_channel;
        SlotPlace slot;
    };

    float (&acc)[kBlocks][kN / 2];

    CODA_DEVICE float* columns() const { return reinterpret_cast<float*>(memory + 4 * kStaging); }
    CODA_DEVICE u8* staging(int warp) const { return memory + warp * kStaging; }
    CODA_DEVICE void sync() const { named_barrier(barrier, 128); }

    template <int i = 0> CODA_DEVICE void load_columns(const Place& at) const {
        if constexpr (i < Visitor::kColumns) {
            for (int n = thread; n < kN; n += 128) {
                const int channel = at.first_channel + n;
                columns()[i * kN + n] = channel < geometry.channels ? Visitor::template column<i>(visitor, at.image, channel) : 0.f;
            }
            load_columns<i + 1>(at);
        }
    }

    // One tensor operand's pair of channels; zero outside the output.
    template <int i> CODA_DEVICE float2 tensor_pair(const Place& at, int row, int channel) const {
        if (row >= geometry.rows || channel >= geometry.channels) return {0.f, 0.f};
        const u64 offset = (u64(at.image) * geometry.rows + row) * geometry.channels + channel;
        return Element::unpack(__ldg(static_cast<const u32*>(Visitor::template tensor<i>(visitor)) + offset / 2));
    }
    template <int i = 0> CODA_DEVICE void load_tensors(float (&first)[larger(1, Visitor::kTensors)], float (&second)[larger(1, Visitor::kTensors)],
                                                       const Place& at, int row, int channel) const {
        if constexpr (i < Visitor::kTensors) {
            const float2 pair = tensor_pair<i>(at, row, channel);
            first[i] = pair.x, second[i] = pair.y;
            load_tensors<i + 1>(first, second, at, row, channel);
        }
    }

    // Calls f(float2& values, columns of the first, columns of the second, tensors of both) for each pair of
    // channels of block `b`, pairs [first, first + count).
    template <bool kTensors, int kCount, class F> CODA_DEVICE void for_pairs(const Place& at, int b, int first, F&& f) const {
        const int lane = thread & 31;
#pragma unroll
        for (int j = first; j < first + kCount; ++j) {
            const int n = 8 * j + 2 * (lane & 3);
            float one[larger(1, kColumns)], two[larger(1, kColumns)];
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
                const float2 pair = *reinterpret_cast<const float2*>(columns() + c * kN + n);
                one[c] = pair.x, two[c] = pair.y;
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float t1[larger(1, Visitor::kTensors)] = {}, t2[larger(1, Visitor::kTensors)] = {};
                if constexpr (kTensors)
                    load_tensors(t1, t2, at, at.first_row + 64 * b + 16 * (thread / 32) + lane / 4 + 8 * half, at.first_channel + n);
                f(acc[b][4 * j + 2 * half], acc[b][4 * j + 2 * half + 1], one, two, t1, t2);
            }
        }
    }

    CODA_DEVICE void apply_before(const Place& at) {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
            for_pairs<Visitor::kTensorsBefore, kN / 8>(at, b, 0, [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2) {
                x = Visitor::before(x, one, t1, visitor);
                y = Visitor::before(y, two, t2, visitor);
            });
    }

    // Statistics of this warpgroup's rows, published. Leaves the rows' mean in column kMean.
    CODA_DEVICE void reduce_and_write_slot(const Place& at) {
        const int warp = thread / 32;
        float2* moments = reinterpret_cast<float2*>(staging(warp));
        if ((thread & 31) == 0) tma_store_wait_read<0>();  // the staging buffers are about to be reused
        __syncwarp();
        const int first = at.first_row + 16 * warp;
        if (at.first_row + Config::kWarpgroupRows <= geometry.rows)
            warp_moments<kBlocks, kN, false>(acc, moments, first, geometry.rows);
        else
            warp_moments<kBlocks, kN, true>(acc, moments, first, geometry.rows);
        sync();
        for (int n = thread; n < kN; n += 128) {
            Moments all{0.f, 0.f, 0.f};
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                int count = 0;
#pragma unroll
                for (int b = 0; b < kBlocks; ++b)
                    count += larger(0, smaller(16, geometry.rows - (at.first_row + 64 * b + 16 * w)));
                const float2 part = reinterpret_cast<const float2*>(staging(w))[n];
                if (count > 0) merge(all, float(count), part.x, part.y);
            }
            columns()[kMean * kN + n] = all.mean;
            const int channel = at.first_channel + n;
            if (channel < geometry.channels)
                norm.slots[(size_t(at.image) * norm.slots_per_image + at.slot.slot) * geometry.channels + channel] = {all.mean, all.m2};
        }
        sync();
    }

    CODA_DEVICE void publish(const Place& at) {
        publish_slot<kN>(norm, at.slot, geometry.rows, geometry.channels, epoch, thread, barrier, vote);
    }

    CODA_DEVICE void wait_for_image(int image) const {
        if (thread == 0) {
            Watchdog watchdog;
            while (!image_ready(norm, image, epoch)) watchdog.tick();
        }
        sync();
    }

    CODA_DEVICE void load_group_columns(const Place& at) const {
        for (int n = thread; n < kN; n += 128) {
            const int channel = at.first_channel + n;
            if (channel >= geometry.channels) break;
            const float2 group = load_l2(norm.groups + size_t(at.image) * geometry.channels + channel);
            columns()[kMean * kN + n] = group.x;
            columns()[kScale * kN + n] = group.y * Visitor::scale(visitor, at.image, channel);
            columns()[kShift * kN + n] = Visitor::shift(visitor, at.image, channel);
        }
        sync();
    }

    // Stores f(accumulator pair) of the whole tile, slice by slice, through this warp's staging buffers.
    template <bool kTensors, class F> CODA_DEVICE void store(const Place& at, F&& f) {
        const int warp = thread / 32, lane = thread & 31;
        constexpr int kChunks = kSlice / 8;  // of 16 bytes in a row of the slice
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                constexpr bool kWraps = kBlocks * kSlices % kStoreBuffers != 0;
                u8* buffer = staging(warp) + (b * kSlices + s) % kStoreBuffers * kSliceBytes;
                if (lane == 0) {
                    if (kWraps && b + s == 0) tma_store_wait_read<0>();
                    else tma_store_wait_read<kStoreBuffers - 1>();
                }
                __syncwarp();
                u32 packed[kSlice / 4];  // pair 2*j + half: columns 8*j + 2*(lane%4), row half
                int at_pair = 0;
                for_pairs<kTensors, kChunks>(at, b, s * kChunks, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
                    packed[at_pair++] = Element::pack(f(x, one, t1), f(y, two, t2));
                });
                write_slice(buffer, packed, lane);
                fence_async_shared();
                __syncwarp();
                if (lane == 0) {
                    tma_store_3d(output, shared_address(buffer), at.first_channel + s * kSlice, at.first_row + 64 * b + 16 * warp, at.image);
                    tma_store_commit();
                }
            }
    }

    // Writes 16 rows x kSlice channels in the store map's swizzle: 8 rows of 16 bytes a matrix, free of bank conflicts.
    static CODA_DEVICE void write_slice(u8* buffer, const u32 (&packed)[kSlice / 4], int lane) {
        constexpr int kRowBytes = kSlice * 2;
        constexpr int kShift = kRowBytes == 128 ? 0 : kRowBytes == 64 ? 1 : 2, kMask = kRowBytes / 16 - 1;
        const int row = (lane & 7) + (lane & 8);
        const u32 base = shared_address(buffer) + row * kRowBytes;
        if constexpr (kSlice >= 16) {
#pragma unroll
            for (int j = 0; j < kSlice / 16; ++j) {
                const int chunk = 2 * j + (lane >> 4);
                const u32 address = base + ((chunk ^ (row >> kShift & kMask)) << 4);
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                             "r"(packed[4 * j]), "r"(packed[4 * j + 1]), "r"(packed[4 * j + 2]), "r"(packed[4 * j + 3]) : "memory");
            }
        } else {
            asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(base), "r"(packed[0]), "r"(packed[1]) : "memory");
        }
    }

    CODA_DEVICE void store_normalised(const Place& at) {
        store<(Visitor::kTensors > 0)>(at, [&](float x, const float* column, const float* tensor) {
            if constexpr (kNorm != Norm::kNone) x = fmaf(x - column[kMean], column[kScale], column[kShift]);
            return Visitor::after(x, column, tensor, visitor);
        });
    }

    CODA_DEVICE void store_centred(const Place& at) {
        store<false>(at, [](float x, const float* column, const float*) { return x - column[kMean]; });
    }
};

}  // namespace coda
