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
#include "exchange.cuh"
#include "tiles.cuh"
#include "tma.cuh"

namespace coda {

enum class Norm {
    kNone,
    kResident,  // accumulators wait in registers for the image's statistics; one store
    kDeferred,  // centred values wait in shared memory while the next tile is multiplied; one store
    kStreamed,  // centred values are stored, and later re-read, normalised and stored in place
};

// The rows and channels of a tile that one warpgroup holds.
template <class Rows> struct Place {
    int image, slot, first_channel;
    Rows rows;
};

template <class Config, class Visitor> struct Epilogue {
    using Element = typename Config::Element;
    using Rows = typename RowsOf<Config::kPatch>::Type;
    using At = Place<Rows>;
    static constexpr int kN = Config::kTileN;
    static constexpr int kBlocks = Config::kWarpgroupRows / 64;  // matrix instructions down a warpgroup's rows
    static constexpr Norm kNorm = Config::kNorm;
    static constexpr int kUnit = Config::kUnit;
    static_assert(kN % kUnit == 0, "a unit of channels does not cross tiles");

    // Stores go in slices of 16 rows x kSlice channels, each by one warp for itself: no barrier between warps.
    static constexpr int kSlice = kN % 64 == 0 ? 64 : kN % 32 == 0 ? 32 : kN % 16 == 0 ? 16 : 8;
    static constexpr int kSliceBytes = 16 * kSlice * 2;
    static constexpr int kSlices = kN / kSlice;
    static constexpr int kStoresPerTile = kBlocks * kSlices;  // bulk groups that a warp commits
    static constexpr int kStoreBuffers = Config::kStoreBuffers;
    static constexpr int kStaging = divide_up(larger(kSliceBytes * kStoreBuffers, kNorm == Norm::kNone ? 0 : kN * 8), 1024) * 1024;  // a warp
    // Moments of the warps' rows, later scratch: in the staging buffers, or apart where those hold a tile.
    static constexpr bool kApart = kNorm == Norm::kDeferred;
    static constexpr int kMomentBytes = kApart ? kN * 8 : kStaging;  // a warp
    static constexpr int kScratch = smaller(larger(128, kN + 126), (4 * kMomentBytes - kN * 4) / int(sizeof(Moments)));
    static_assert(kNorm != Norm::kDeferred || kStoreBuffers == kStoresPerTile, "the staging buffers hold a whole tile");

    // Column operands in shared memory: the visitor's, then mean, scale, shift of the normalisation.
    static constexpr int kColumns = Visitor::kColumns + (kNorm == Norm::kNone ? 0 : 3);
    static constexpr int kMean = Visitor::kColumns, kScale = kMean + 1, kShift = kMean + 2;
    static constexpr int kWarpgroupBytes = 4 * kStaging + kColumns * kN * 4 + (kApart ? 4 * kMomentBytes : 0);

    const TensorMap& output;
    const ConvGeometry& geometry;
    const GroupNormParams& norm;
    const typename Visitor::Params& visitor;
    u8* const memory;  // this warpgroup's kWarpgroupBytes, aligned as a swizzled slice needs
    u32* const votes;   // eight words of this warpgroup
    const int thread;   // in the warpgroup
    const int barrier;  // a named barrier of the warpgroup
    const u32 epoch;
    float (&acc)[kBlocks][kN / 2];

    CODA_DEVICE float* columns() const { return reinterpret_cast<float*>(memory + 4 * kStaging); }
    CODA_DEVICE u8* staging(int warp) const { return memory + warp * kStaging; }
    CODA_DEVICE u8* moments(int warp) const { return (kApart ? memory + 4 * kStaging + kColumns * kN * 4 : memory) + warp * kMomentBytes; }
    CODA_DEVICE void sync() const { named_barrier(barrier, 128); }

    template <int i = 0> CODA_DEVICE void load_columns(const At& at) const {
        if constexpr (i < Visitor::kColumns) {
            for (int n = thread; n < kN; n += 128) {
                const int channel = at.first_channel + n;
                columns()[i * kN + n] = channel < geometry.channels ? Visitor::template column<i>(visitor, at.image, channel) : 0.f;
            }
            load_columns<i + 1>(at);
        } else if constexpr (kNorm == Norm::kResident) {
            for (int n = thread; n < kN && at.first_channel + n < geometry.channels; n += 128) {
                columns()[kScale * kN + n] = Visitor::scale(visitor, at.image, at.first_channel + n);
                columns()[kShift * kN + n] = Visitor::shift(visitor, at.image, at.first_channel + n);
            }
        }
    }

    // One tensor operand's pair of channels in row m of the tile; zero outside the output.
    template <int i> CODA_DEVICE float2 tensor_pair(const At& at, int m, int channel) const {
        if (!at.rows.valid(m) || channel >= geometry.channels) return {0.f, 0.f};
        const u64 offset = (u64(at.image) * geometry.rows + at.rows.pixel(m)) * geometry.channels + channel;
        return Element::unpack(__ldg(static_cast<const u32*>(Visitor::template tensor<i>(visitor)) + offset / 2));
    }
    template <int i = 0> CODA_DEVICE void load_tensors(float (&first)[larger(1, Visitor::kTensors)], float (&second)[larger(1, Visitor::kTensors)],
                                                       const At& at, int m, int channel) const {
        if constexpr (i < Visitor::kTensors) {
            const float2 pair = tensor_pair<i>(at, m, channel);
            first[i] = pair.x, second[i] = pair.y;
            load_tensors<i + 1>(first, second, at, m, channel);
        }
    }

    // Calls f(x, y, columns of x, columns of y, tensors of x, tensors of y) for each pair of neighbouring channels x, y
    // of block b, pairs [first, first + kCount).
    template <bool kTensors, int kCount, class F> CODA_DEVICE void for_pairs(const At& at, int b, int first, F&& f) const {
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
                if constexpr (kTensors) load_tensors(t1, t2, at, 64 * b + 16 * (thread / 32) + lane / 4 + 8 * half, at.first_channel + n);
                f(acc[b][4 * j + 2 * half], acc[b][4 * j + 2 * half + 1], one, two, t1, t2);
            }
        }
    }

    CODA_DEVICE void apply_before(const At& at) {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
            for_pairs<Visitor::kTensorsBefore, kN / 8>(at, b, 0, [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2) {
                x = Visitor::before(x, one, t1, visitor);
                y = Visitor::before(y, two, t2, visitor);
            });
    }

    // The moments of this warpgroup's rows, written to its slot. Leaves their units' means in column kMean.
    CODA_DEVICE void reduce_and_publish(const At& at) {
        constexpr int kWidth = kUnit % 2 == 0 ? 2 : 1, kParts = kUnit / kWidth;  // entries of a unit in a warp's moments
        const int warp = thread / 32;
        float2* own = reinterpret_cast<float2*>(moments(warp));
        if (!kApart && (thread & 31) == 0) tma_store_wait_read<0>();  // the staging buffers are about to be reused
        __syncwarp();
        const bool full = at.rows.all_valid(Config::kWarpgroupRows);
        if (full) warp_moments<kBlocks, kN, kWidth, false>(acc, own, at.rows, warp);
        else warp_moments<kBlocks, kN, kWidth, true>(acc, own, at.rows, warp);
        sync();
        float count[4], inverse = 1.f / (64 * kBlocks * kParts), total = 64 * kBlocks;  // rows of the warps
#pragma unroll
        for (int w = 0; w < 4; ++w) count[w] = 16 * kBlocks;
        if (!full) {
            total = 0.f;
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                int rows = 0;
#pragma unroll
                for (int b = 0; b < kBlocks; ++b) rows += at.rows.valid_of_16(64 * b + 16 * w);
                total += count[w] = float(rows);
            }
            inverse = total > 0.f ? __fdividef(1.f, total * kParts) : 0.f;
        }
        for (int u = thread; u < kN / kUnit; u += 128) {
            auto part = [&](int w, int i) { return reinterpret_cast<const float2*>(moments(w))[u * kParts + i]; };
            const float pivot = part(0, 0).x;
            float sum = 0.f, m2 = 0.f;
#pragma unroll
            for (int i = 0; i < kParts; ++i)
#pragma unroll
                for (int w = 0; w < 4; ++w) sum = fmaf(count[w], part(w, i).x - pivot, sum);
            const float mean = fmaf(sum, inverse, pivot);
#pragma unroll
            for (int i = 0; i < kParts; ++i)
#pragma unroll
                for (int w = 0; w < 4; ++w) {
                    const float2 moment = part(w, i);
                    const float delta = moment.x - mean;
                    m2 += fmaf(delta * delta, count[w] * kWidth, moment.y);
                }
            const int channel = at.first_channel + u * kUnit, units = geometry.channels / kUnit;
            if (channel < geometry.channels)
                write_entry(norm.slots + (size_t(at.image) * norm.slots_per_image + at.slot) * units + channel / kUnit, {total * kUnit, mean, m2}, epoch);
#pragma unroll
            for (int i = 0; i < kUnit; ++i) columns()[kMean * kN + u * kUnit + i] = mean;
        }
        sync();
    }

    // Waits for the image's statistics; then column kMean is the group's mean and kScale the scale times rstd.
    CODA_DEVICE void load_statistics(const At& at) const {
        float *mean = columns() + kMean * kN, *scale = columns() + kScale * kN, *rstd = reinterpret_cast<float*>(moments(4)) - kN;
        group_statistics<true, kN, kScratch, kUnit>(norm, at.image, at.first_channel, geometry.channels, epoch, at.slot == 0,
                                       reinterpret_cast<Moments*>(moments(0)), mean, rstd, votes, thread, barrier);
        for (int n = thread; n < kN; n += 128) scale[n] *= rstd[n];
        sync();
    }

    // Stores f(accumulator, columns, tensors) of the whole tile, slice by slice, through this warp's staging buffers.
    // kKeep: leaves them in the buffers.
    template <bool kTensors, bool kKeep = false, class F> CODA_DEVICE void store(const At& at, F&& f) {
        const int warp = thread / 32, lane = thread & 31;
        constexpr int kChunks = kSlice / 8;  // of 16 bytes in a row of the slice
        constexpr bool kWraps = kStoresPerTile % kStoreBuffers != 0;
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                u8* buffer = staging(warp) + (b * kSlices + s) % kStoreBuffers * kSliceBytes;
                u32 packed[kSlice / 4];  // 2*j + half: columns 8*j + 2*(lane%4), row half
                int pair = 0;
                for_pairs<kTensors, kChunks>(at, b, s * kChunks, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
                    packed[pair++] = Element::pack(f(x, one, t1), f(y, two, t2));
                });
                if (lane == 0) {
                    if ((kWraps || kKeep) && b + s == 0) tma_store_wait_read<0>();
                    else if (!kKeep) tma_store_wait_read<kStoreBuffers - 1>();
                }
                __syncwarp();
                write_slice(buffer, packed, lane);
                if (!kKeep) fence_async_shared();
                __syncwarp();
                if (!kKeep && lane == 0) {
                    const int m = 64 * b + 16 * warp;
                    tma_store_4d(output, shared_address(buffer), at.first_channel + s * kSlice, at.rows.store_x(m), at.rows.store_y(m), at.image);
                    tma_store_commit();
                }
            }
    }

    // Writes 16 rows x kSlice channels in the store map's swizzle: 8 rows of 16 bytes a matrix, free of bank conflicts.
    static CODA_DEVICE void write_slice(u8* buffer, const u32 (&packed)[kSlice / 4], int lane) {
        constexpr int kRowBytes = kSlice * 2;
        constexpr int kShift = kRowBytes == 128 ? 0 : kRowBytes == 64 ? 1 : 2, kMask = kRowBytes / 16 - 1;
        const int row = lane & 15;
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

    CODA_DEVICE void store_result(const At& at) {
        store<(Visitor::kTensors > 0)>(at, [&](float x, const float* column, const float* tensor) {
            // The difference first: exact where x is near the mean, so a large common offset costs no bits.
            if constexpr (kNorm != Norm::kNone) x = fmaf(x - column[kMean], column[kScale], column[kShift]);
            return Visitor::after(x, column, tensor, visitor);
        });
    }

    template <bool kKeep> CODA_DEVICE void store_centred(const At& at) {
        store<false, kKeep>(at, [](float x, const float* column, const float*) { return x - column[kMean]; });
    }
};

}  // namespace coda
