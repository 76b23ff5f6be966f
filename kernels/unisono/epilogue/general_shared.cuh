// A general epilogue's last pass in shared memory (Config::kElementsInShared): a warp writes the sums of its slice of
// 16 rows x kSlice channels to shared memory, and each lane takes eight neighbouring channels of a row from there. In
// registers (epilogue/general_elements.cuh) a lane has two. Functions may then take eight elements at once, and
// operands [m,n] come by loads of 16 bytes; sums go twice through shared memory. Nothing is reduced in this pass, and
// rows' values, which follow from no reduction, are computed where they are read; of reductions over rows that elements
// read again the results are among the columns.
#pragma once
#include "unisono/epilogue/general.cuh"
#include "unisono/epilogue/octets.cuh"
#include "unisono/epilogue/sm90_fragment.cuh"
#include "unisono/epilogue/vectors.cuh"

namespace unisono {

// Eight elements of a lane.
template <class General>
struct SharedOctet {
  using Tail = typename General::EpilogueTail;
  using Visitor = typename Tail::EpilogueVisitor;
  static constexpr int kColumns = larger(1, Tail::kColumns), kTensors = larger(1, Visitor::kTensors);
  const Tail& tail;
  const typename Tail::At& at;
  const int m, n, channel, count;  // row and channel of the tile; of those from `channel` on so many exist
  const Where place;
  typename Visitor::Result results[8] = {};

  UNISONO_DEVICE SharedOctet(const General& of, const typename Tail::At& at, int m, int n)
      : tail(of.tail),
        at(at),
        m(m),
        n(n),
        channel(at.first_channel + n),
        count(at.rows.valid(m) ? smaller(8, larger(0, tail.geometry.channels - channel)) : 0),
        place(of.where(at, m)) {}

  UNISONO_DEVICE u64 offset() const { return u64(place.m) * tail.geometry.channels + channel; }

  UNISONO_DEVICE void load(float (&tensor)[8][kTensors]) const {
    if constexpr (Visitor::kTensors > 0) {
      if constexpr (General::kPairs) {
        Octets<Visitor, 0, true> octets;
        if (count > 0) octets.load(tail.visitor, offset(), tail.geometry.channels);
#pragma unroll
        for (int w = 0; w < 4; ++w)
          if (count > 0) octets.pair(w, tensor[2 * w], tensor[2 * w + 1]);
      } else {
        const typename General::Ring ring{tail.visitor, tail.geometry, tail.thread / 32, tail.thread & 31};
#pragma unroll
        for (int e = 0; e < 8; ++e) ring.load(tensor[e], at, m, channel + e);
      }
    }
  }

  UNISONO_DEVICE void compute(const float* sums) {
    float acc[8], column[8][kColumns] = {}, tensor[8][kTensors] = {}, none[1];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc[e] = sums[e];
#pragma unroll
      for (int c = 0; c < Tail::kColumns; ++c) column[e][c] = tail.columns()[c * Tail::kN + n + e];
    }
    load(tensor);
    const typename Visitor::Row row = Visitor::row(tail.visitor, tail.uniform, place);
    if constexpr (FormsOf<Visitor>::kAny) {
      elements_of_row<Visitor>(acc, column, tensor, tail.uniform, row, place, channel,
                               General::kPairs ? 0 : u32(place.m) * u32(tail.geometry.channels), count, results);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e)
        results[e] =
            Visitor::element(acc[e], column[e], tensor[e], tail.uniform, row, place, channel + e, e < count, none);
    }
  }

  // What goes from registers.
  UNISONO_DEVICE void put() const {
#pragma unroll
    for (int e = 0; e < 8; e += 1 + General::kPairs) {
      if (e >= count) continue;
      if constexpr (General::kPairs)
        Visitor::put(tail.visitor, offset() + e, results[e], results[e + 1]);
      else
        Visitor::put(tail.visitor, tail.offset_of(at, m, channel + e), results[e]);
    }
  }
  template <class Element>
  UNISONO_DEVICE uint4 packed(int store) const {
    u32 words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      words[w] = Element::pack(Visitor::tiled(results[2 * w], store), Visitor::tiled(results[2 * w + 1], store));
    return {words[0], words[1], words[2], words[3]};
  }
};

// Octets of a warp's slice of 16 rows, and which of them this lane has.
template <int kSlice>
struct SliceOctets {
  static constexpr int kChunks = kSlice / 8, kCount = divide_up(16 * kChunks, 32);
  uint4 main[kCount] = {}, side[kCount] = {};  // of the results that TMA stores

  static UNISONO_DEVICE int row(int i, int lane) { return (32 * i + lane) / kChunks; }
  static UNISONO_DEVICE int chunk(int i, int lane) { return (32 * i + lane) % kChunks; }
  // Calls f(octet of the lane, its row, its chunk of eight channels).
  template <class F>
  static UNISONO_DEVICE void for_each(int lane, const F& f) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (32 * i + lane < 16 * kChunks) f(i, row(i, lane), chunk(i, lane));
  }
};

// This warp's sums of block b and slice s, row by row.
template <class Tail>
UNISONO_DEVICE void General<Tail>::write_sums(float* sums, int b, int s) const {
  constexpr int kLine = shared_layout::element_line(kSlice);
  __syncwarp();  // the slice ahead has been read
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float* const pair = tail.acc[b] + 4 * (s * (kSlice / 8) + i / 2) + 2 * (i & 1);
    *reinterpret_cast<float2*>(sums + (lane() / 4 + 8 * (i & 1)) * kLine + 8 * (i / 2) + 2 * (lane() & 3)) = {
        as_float(pair[0]), as_float(pair[1])};
  }
  __syncwarp();
}

template <class Tail>
UNISONO_DEVICE void General<Tail>::elements_in_shared(const At& at) {
  static_assert(!reduces_rows() && kValues == 0 && !Groups::kAny && !kFetches && !Tail::kShared && Tail::kProducts == 1,
                "a value of its own for each element, and rows that are staged by their own warp");
  constexpr int kLine = shared_layout::element_line(kSlice);
  const int warp = tail.thread / 32;
  float* const sums =
      reinterpret_cast<float*>(tail.memory + Tail::kFoldOffset + Tail::Needs::kElementsAt) + warp * 16 * kLine;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      write_sums(sums, b, s);
      SliceOctets<kSlice> octets;
      octets.for_each(lane(), [&](int i, int row, int chunk) {
        SharedOctet<General> own(*this, at, 64 * b + 16 * warp + row, s * kSlice + 8 * chunk);
        own.compute(sums + row * kLine + 8 * chunk);
        own.put();
        if constexpr (kTiled > 0) octets.main[i] = own.template packed<typename Visitor::Output>(0);
        if constexpr (kTiled > 1) octets.side[i] = own.template packed<typename Visitor::Side>(1);
      });
      if constexpr (kTiled > 0)
        tail.template store_slices<kInOrder, kFetches, (kTiled > 1)>(at, b, s, warp, [&](int place) {
          octets.for_each(lane(), [&](int i, int row, int chunk) {
            const u32 to = place * Tail::kSliceBytes + SliceSwizzle<kSlice>::offset(row, chunk);
            *reinterpret_cast<uint4*>(tail.staging(warp) + to) = octets.main[i];
            if constexpr (kTiled > 1) *reinterpret_cast<uint4*>(tail.side_staging(warp, 0) + to) = octets.side[i];
          });
        });
    }
}

}  // namespace unisono
