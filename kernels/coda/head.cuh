// A second product on what a tile stores: the 1x1 convolution of a few channels that follows a network's last block. A configuration says so by
// a type `Head`; one without has NoHead. A warp multiplies the slices of 16 rows that it has staged for its stores, as they are rounded, by the
// head's filters, which wait in the first-level cache. What the head does to the sums is a visitor of its own, with columns and without tensors.
#pragma once
#include "fragment.cuh"
#include "resample.cuh"
#include "visitor.cuh"
#include "wgmma.cuh"

namespace coda {

struct NoHead {
    static constexpr bool kOnly = false;
    static constexpr int kEights = 0, kMaps = 0;
};

// kEights: eights of channels, the last of which may be fewer. kOnly: the main store itself is not written; where tiles wait in its place in memory
// for their statistics (second_pass.cuh), they still do.
template <int kEightsOfChannels, bool kOnlyThis, class OwnVisitor> struct FusedHead {
    using Visitor = OwnVisitor;
    static constexpr bool kOnly = kOnlyThis;
    static constexpr int kEights = kEightsOfChannels, kMaps = 1;
    static_assert(Visitor::kTensors == 0 && Visitor::kSide == SideStore::kNone, "a head reads columns and has one result");
};

template <class Config, class = void> struct HeadOf { using Type = NoHead; };
template <class Config> struct HeadOf<Config, typename Exists<typename Config::Head>::Type> { using Type = typename Config::Head; };

// What stands in a further map's place behind ConvParams.
template <class Visitor> struct HeadParams {
    HeadOutput to;
    typename Visitor::Params visitor;
    static_assert(sizeof(HeadOutput) + sizeof(typename Visitor::Params) <= sizeof(TensorMap), "a head's operands fit into the place of a map");
};

// One warp's 16 rows. Lane l of a fragment (PTX ISA, m16n8k16) has, of the rows, row l / 4 (+ 8) and of the head's channels 2 * (l % 4) + {0, 1};
// its operands are channels k, which any order serves that both have: a lane takes kVector neighbours at once of its rows and of filter l / 4.
template <class Head, class Main, int kSlice> struct HeadProduct {
    using Visitor = typename Head::Visitor;
    using Params = HeadParams<Visitor>;
    static constexpr int kVector = smaller(8, kSlice / 4), kWords = kVector / 2, kParts = kSlice / (4 * kVector);
    static_assert(kSlice >= 16, "a matrix instruction takes 16 channels");

    float sums[Head::kEights][4];

    // Free of bank conflicts: eight lanes read two rows of a slice at once, which lie in the same banks unless they are four apart.
    static CODA_DEVICE int row_of(int lane) {
        const int row = lane / 4;
        return kSlice == 64 ? row / 2 + row % 2 * 4 : row;
    }

    CODA_DEVICE void open() {
#pragma unroll
        for (int i = 0; i < Head::kEights; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][e] = 0.f;
    }

    static CODA_DEVICE void read(const u8* from, u32 (&words)[kWords]) {
        if constexpr (kWords == 4) {
            const uint4 all = *reinterpret_cast<const uint4*>(from);
            words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
        } else {
            const uint2 all = *reinterpret_cast<const uint2*>(from);
            words[0] = all.x, words[1] = all.y;
        }
    }
    static CODA_DEVICE void fetch(const u16* from, u32 (&words)[kWords]) {
        if constexpr (kWords == 4) {
            const uint4 all = __ldg(reinterpret_cast<const uint4*>(from));
            words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
        } else {
            const uint2 all = __ldg(reinterpret_cast<const uint2*>(from));
            words[0] = all.x, words[1] = all.y;
        }
    }

    // Adds the products of a slice, which this warp has synchronised; its channels are those from `first_channel` of the output. What is staged
    // of channels beyond the output's may be anything.
    CODA_DEVICE void add(const Params& p, const u8* slice, int first_channel, int channels, int lane) {
        const u16* const filters = static_cast<const u16*>(p.to.filter);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            const int n = 4 * kVector * part + kVector * (lane & 3);
            const bool exists = first_channel + n < channels;
            u32 rows[2][kWords] = {};
#pragma unroll
            for (int half = 0; half < 2; ++half)
                if (exists) read(slice + SliceSwizzle<kSlice>::offset(row_of(lane) + 8 * half, n / 8) + n % 8 * 2, rows[half]);
#pragma unroll
            for (int i = 0; i < Head::kEights; ++i) {
                u32 filter[kWords] = {};
                if (exists) fetch(filters + size_t(smaller(8 * i + lane / 4, int(p.to.channels) - 1)) * channels + first_channel + n, filter);
#pragma unroll
                for (int w = 0; w < kWords; w += 2) {
                    const u32 a[4] = {rows[0][w], rows[1][w], rows[0][w + 1], rows[1][w + 1]}, b[2] = {filter[w], filter[w + 1]};
                    multiply_fragments<typename Main::Output>(sums[i], a, b);
                }
            }
        }
    }

    // Stores the head's values of rows m to m + 15 of the tile, whose slices have all been added.
    template <class Place> CODA_DEVICE void store(const Params& p, const Place& at, int image_rows, int m, int lane) const {
        using Output = typename Visitor::Output;
        const typename Visitor::Uniform uniform = Visitor::uniform(p.visitor);
        u16* row[2];
        bool valid[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = m + row_of(lane) + 8 * half;
            valid[half] = at.rows.valid(r);
            row[half] = static_cast<u16*>(p.to.memory) + (u64(at.image) * image_rows + at.rows.pixel(r)) * p.to.pitch;
        }
        delay_point();
#pragma unroll
        for (int i = 0; i < Head::kEights; ++i) {
            const int n = 8 * i + 2 * (lane & 3), last = int(p.to.channels) - 1;
            float columns[2][larger(1, Visitor::kColumnsAfter)];
            if constexpr (Visitor::kColumnsAfter > 0) {
                Visitor::columns_after(p.visitor, uniform, at.image, smaller(n, last), columns[0]);
                Visitor::columns_after(p.visitor, uniform, at.image, smaller(n + 1, last), columns[1]);
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32 pair = Output::pack(Visitor::after(sums[i][2 * half], 0.f, columns[0], nullptr, uniform),
                                              Visitor::after(sums[i][2 * half + 1], 0.f, columns[1], nullptr, uniform));
                if (!valid[half] || n > last) continue;
                if (n < last && p.to.pitch % 2 == 0) *reinterpret_cast<u32*>(row[half] + n) = pair;
                else row[half][n] = u16(pair);
                if (n < last && p.to.pitch % 2 != 0) row[half][n + 1] = u16(pair >> 16);
            }
        }
    }
};
template <class Main, int kSlice> struct HeadProduct<NoHead, Main, kSlice> {
    struct Params {};
};

}  // namespace coda
