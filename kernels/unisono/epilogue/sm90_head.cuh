// A second product on what a tile stores: the 1x1 convolution of a few channels that follows a network's last block. A
// configuration says so by a type `Head`; one without has NoHead. A warp multiplies the slices of 16 rows that it has
// staged for its stores, as they are rounded, by the head's filters, which wait in L1. What the head does to the sums
// is a visitor of its own, with columns and without tensors.
#pragma once
#include "unisono/epilogue/sm90_fragment.cuh"
#include "unisono/epilogue/visitor.cuh"
#include "unisono/mma/sm90_wgmma.cuh"
#include "unisono/tile/resample.cuh"

namespace unisono {

struct NoHead {
  static constexpr bool kOnly = false;
  static constexpr int kEights = 0;
};

// kEights: eights of channels, the last of which may be fewer. kOnly: the main store itself is not written; where tiles
// wait in its place in memory for their statistics (epilogue/sm90_second_pass.cuh), they still do.
template <int kEightsOfChannels, bool kOnlyThis, class OwnVisitor>
struct FusedHead {
  using Visitor = OwnVisitor;
  static constexpr bool kOnly = kOnlyThis;
  static constexpr int kEights = kEightsOfChannels;
  static_assert(Visitor::kTensors == 0 && Visitor::kSide == SideStore::kNone,
                "a head reads columns and has one result");
};

// What a head reads, behind all further maps.
template <class Visitor>
struct alignas(64) HeadParams {
  static constexpr bool kAny = true;
  static constexpr u64 kFields = params_layout::fields_of_bytes(sizeof(typename Visitor::Params));
  HeadOutput to;
  typename Visitor::Params visitor;
};

// One warp's 16 rows. Lane l of a fragment (PTX ISA, m16n8k16) has, of the rows, row l / 4 (+ 8) and of the head's
// channels 2 * (l % 4) + {0, 1}; its operands are channels k, which any order serves that both have: a lane takes
// kVector neighbours at once of its rows and of filter l / 4.
template <class Head, class Main, int kSlice, int kTileN>
struct HeadProduct {
  using Visitor = typename Head::Visitor;
  using Params = HeadParams<Visitor>;
  static constexpr int kVector = smaller(8, kSlice / 4), kWords = kVector / 2, kParts = kSlice / (4 * kVector);
  static_assert(kSlice >= 16, "a matrix instruction takes 16 channels");

  // Filters and columns that fit stay in registers for a tile: from L1 they are a latency each, of which a warp alone
  // on its scheduler hides none.
  static constexpr bool kHeld = kTileN == kSlice && kParts * Head::kEights * kWords <= 32,
                        kHeldColumns = Head::kEights * Visitor::kColumnsAfter <= 8;
  static constexpr int kColumns = larger(1, Visitor::kColumnsAfter);

  float sums[Head::kEights][4];
  u32 filters[kHeld ? kParts : 1][Head::kEights][kWords];
  float columns[kHeldColumns ? Head::kEights : 1][2][kColumns];

  // Free of bank conflicts: eight lanes read two rows of a slice at once, which lie in the same banks unless they are
  // four apart.
  static UNISONO_DEVICE int row_of(int lane) {
    const int row = lane / 4;
    return kSlice == 64 ? row / 2 + row % 2 * 4 : row;
  }

  // Called once a tile, before its slices.
  UNISONO_DEVICE void begin(const Params& p, int image, int channels, int lane) {
    if constexpr (kHeld) {
#pragma unroll
      for (int part = 0; part < kParts; ++part)
#pragma unroll
        for (int i = 0; i < Head::kEights; ++i) fetch(p, i, channel_of(part, lane), channels, lane, filters[part][i]);
    }
    if constexpr (kHeldColumns) {
#pragma unroll
      for (int i = 0; i < Head::kEights; ++i) columns_of(p, image, i, lane, columns[i]);
    }
  }

  UNISONO_DEVICE void open() {
#pragma unroll
    for (int i = 0; i < Head::kEights; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][e] = 0.f;
  }

  static UNISONO_DEVICE void read(const u8* from, u32 (&words)[kWords]) {
    if constexpr (kWords == 4) {
      const uint4 all = *reinterpret_cast<const uint4*>(from);
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
    } else {
      const uint2 all = *reinterpret_cast<const uint2*>(from);
      words[0] = all.x, words[1] = all.y;
    }
  }
  // A lane's channels in a part of a slice.
  static UNISONO_DEVICE int channel_of(int part, int lane) { return 4 * kVector * part + kVector * (lane & 3); }
  // Channels from n on of filter lane / 4 of an eight; zero beyond the output's.
  static UNISONO_DEVICE void fetch(const Params& p, int eight, int n, int channels, int lane, u32 (&words)[kWords]) {
    const u16* const from = static_cast<const u16*>(p.to.filter) +
                            size_t(smaller(8 * eight + lane / 4, int(p.to.channels) - 1)) * channels + n;
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] = 0;
    if (n >= channels) return;
    if constexpr (kWords == 4) {
      const uint4 all = __ldg(reinterpret_cast<const uint4*>(from));
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
    } else {
      const uint2 all = __ldg(reinterpret_cast<const uint2*>(from));
      words[0] = all.x, words[1] = all.y;
    }
  }
  static UNISONO_DEVICE void columns_of(const Params& p, int image, int eight, int lane, float (&of)[2][kColumns]) {
    if constexpr (Visitor::kColumnsAfter > 0) {
      const typename Visitor::Uniform uniform = Visitor::uniform(p.visitor);
      const int n = 8 * eight + 2 * (lane & 3), last = int(p.to.channels) - 1;
      Visitor::columns_after(p.visitor, uniform, image, smaller(n, last), of[0]);
      Visitor::columns_after(p.visitor, uniform, image, smaller(n + 1, last), of[1]);
    }
  }

  // Adds the products of a slice, which this warp has synchronised; its channels are those from `first_channel` of the
  // output. What is staged of channels beyond the output's may be anything.
  UNISONO_DEVICE void add(const Params& p, const u8* slice, int first_channel, int channels, int lane) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int n = channel_of(part, lane);
      const bool exists = first_channel + n < channels;
      u32 rows[2][kWords] = {};
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (exists) read(slice + SliceSwizzle<kSlice>::offset(row_of(lane) + 8 * half, n / 8) + n % 8 * 2, rows[half]);
#pragma unroll
      for (int i = 0; i < Head::kEights; ++i) {
        u32 fetched[kWords];
        if constexpr (!kHeld) fetch(p, i, first_channel + n, channels, lane, fetched);
        const u32* const filter = kHeld ? filters[kHeld ? part : 0][i] : fetched;
#pragma unroll
        for (int w = 0; w < kWords; w += 2) {
          const u32 a[4] = {rows[0][w], rows[1][w], rows[0][w + 1], rows[1][w + 1]}, b[2] = {filter[w], filter[w + 1]};
          multiply_fragments<typename Main::Output>(sums[i], a, b);
        }
      }
    }
  }

  // Four lanes have pair q = lane % 4 of each eight of a row; then lane q has eight q.
  static UNISONO_DEVICE uint4 turned(const u32 (&pairs)[Head::kEights], int q) {
    u32 all[4] = {};
#pragma unroll
    for (int i = 0; i < Head::kEights; ++i) all[i] = pairs[i];
#pragma unroll
    for (int bit = 2; bit > 0; bit /= 2)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & bit) != 0) continue;
        const bool upper = (q & bit) != 0;
        const u32 other = __shfl_xor_sync(~0u, upper ? all[i] : all[i | bit], bit);
        all[i] = upper ? other : all[i], all[i | bit] = upper ? all[i | bit] : other;
      }
    return {all[0], all[1], all[2], all[3]};
  }

  // Stores the head's values of rows m to m + 15 of the tile, whose slices have all been added.
  template <class At>
  UNISONO_DEVICE void store(const Params& p, const At& at, int image_rows, int m, int lane) const {
    using Output = typename Visitor::Output;
    const typename Visitor::Uniform uniform = Visitor::uniform(p.visitor);
    const int count = int(p.to.channels), q = lane & 3;
    u32 pairs[2][Head::kEights];
#pragma unroll
    for (int i = 0; i < Head::kEights; ++i) {
      const int n = 8 * i + 2 * q;
      float loaded[2][kColumns];
      if constexpr (!kHeldColumns) columns_of(p, at.image, i, lane, loaded);
      const float(*const column)[kColumns] = kHeldColumns ? columns[kHeldColumns ? i : 0] : loaded;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x = Visitor::after(sums[i][2 * half], 0.f, column[0], nullptr, uniform),
                    y = Visitor::after(sums[i][2 * half + 1], 0.f, column[1], nullptr, uniform);
        pairs[half][i] = Output::pack(n < count ? x : 0.f, n + 1 < count ? y : 0.f);
      }
    }
    // The room behind the last channel is the row's own where nothing else can begin there.
    const bool padded = p.to.pitch == u64(divide_up(count, 8) * 8);
    const int here = padded ? divide_up(count, 8) * 8 - 8 * q : count - 8 * q;  // channels from 8 q on
    delay_point();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 eight = turned(pairs[half], q);
      const int r = m + row_of(lane) + 8 * half;
      if (here <= 0 || !at.rows.valid(r)) continue;
      u16* const to =
          static_cast<u16*>(p.to.memory) + (u64(at.image) * image_rows + at.rows.pixel(r)) * p.to.pitch + 8 * q;
      if (here >= 8 && p.to.pitch % 8 == 0) {
        *reinterpret_cast<uint4*>(to) = eight;
      } else {
        const u32 words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int k = 0; k < 8; ++k)
          if (k < here) to[k] = u16(words[k / 2] >> 16 * (k % 2));
      }
    }
  }
};
template <class Main, int kSlice, int kTileN>
struct HeadProduct<NoHead, Main, kSlice, kTileN> {
  using Params = NoHeadParams;
};

}  // namespace unisono
