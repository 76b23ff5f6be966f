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

// Operands [m,n] of eight elements: eight at once,
template <class General, bool kNone, bool kTogether>
struct OctetOperands {
  using Visitor = typename General::Visitor;
  template <class Octet, int kTensors>
  static UNISONO_DEVICE void load(const Octet& of, float (&tensor)[8][kTensors]) {
    Octets<Visitor, 0, true> octets;
    if (of.count > 0) octets.load(of.tail.visitor, of.offset(), of.tail.geometry.channels);
#pragma unroll
    for (int w = 0; w < 4; ++w)
      if (of.count > 0) octets.pair(w, tensor[2 * w], tensor[2 * w + 1]);
  }
};
// one by one,
template <class General>
struct OctetOperands<General, false, false> {
  template <class Octet, int kTensors>
  static UNISONO_DEVICE void load(const Octet& of, float (&tensor)[8][kTensors]) {
    const typename General::Ring ring{of.tail.visitor, of.tail.geometry, of.tail.thread / 32, of.tail.thread & 31};
#pragma unroll
    for (int e = 0; e < 8; ++e) ring.load(tensor[e], of.at, of.m, of.channel + e);
  }
};
// or none.
template <class General, bool kTogether>
struct OctetOperands<General, true, kTogether> {
  template <class Octet, int kTensors>
  static UNISONO_DEVICE void load(const Octet&, float (&)[8][kTensors]) {}
};

// Eight elements of a lane.
template <class General>
struct SharedOctet {
  using Tail = typename General::EpilogueTail;
  using Visitor = typename Tail::EpilogueVisitor;
  static constexpr int kColumns = larger(1, Tail::kColumns), kTensors = larger(1, Visitor::kTensors);
  const Tail& tail;
  const typename Tail::At& at;
  const int m, n, channel, count;  // row and channel of the tile; of those from `channel` on this many exist
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

  UNISONO_DEVICE void compute(const float* sums) {
    float acc[8], column[8][kColumns] = {}, tensor[8][kTensors] = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc[e] = sums[e];
#pragma unroll
      for (int c = 0; c < Tail::kColumns; ++c) column[e][c] = tail.columns()[c * Tail::kN + n + e];
    }
    OctetOperands<General, Visitor::kTensors == 0, General::kPairs>::load(*this, tensor);
    const typename Visitor::Row row = Visitor::row(tail.visitor, tail.uniform, place);
    typename Visitor::Row rows[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) rows[e] = row;
    float none[8][1];
    RowElements<Visitor>::compute(
        acc, column, tensor, tail.uniform, rows, place, channel,
        General::kPairs ? 0 : u32(place.m) * u32(tail.geometry.channels), count, [&](int e) { return e < count; },
        results, none);
  }

  // What goes from registers.
  UNISONO_DEVICE void put() const {
#pragma unroll
    for (int e = 0; e < 8; e += 2)
      General::Effects::put(tail, at, m, place, channel, e, e < count, e + 1 < count, results[e], results[e + 1]);
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

// The results of a slice that TMA stores: of both stores,
template <class General, int kTiled = General::kTiled>
struct TiledOctets : TiledOctets<General, 1> {
  using Base = TiledOctets<General, 1>;
  using Visitor = typename Base::Visitor;
  uint4 side[Base::Octets::kCount] = {};
  UNISONO_DEVICE void put(int i, const SharedOctet<General>& of) {
    Base::put(i, of);
    side[i] = of.template packed<typename Visitor::Side>(1);
  }
  template <class Tail>
  UNISONO_DEVICE void store(const Tail& tail, const typename Tail::At& at, int b, int s, int warp, int lane) const {
    this->template send<true>(tail, at, b, s, warp, lane, [&](int i, u32 to) {
      *reinterpret_cast<uint4*>(tail.side_staging(warp, 0) + to) = side[i];
    });
  }
};
// of the main one,
template <class General>
struct TiledOctets<General, 1> {
  using Visitor = typename General::Visitor;
  using Octets = SliceOctets<General::kSlice>;
  uint4 main[Octets::kCount] = {};
  UNISONO_DEVICE void put(int i, const SharedOctet<General>& of) {
    main[i] = of.template packed<typename Visitor::Output>(0);
  }
  template <class Tail>
  UNISONO_DEVICE void store(const Tail& tail, const typename Tail::At& at, int b, int s, int warp, int lane) const {
    send<false>(tail, at, b, s, warp, lane, [](int, u32) {});
  }
  // beside(octet, its place): writes what the second store has of it.
  template <bool kBoth, class Tail, class Beside>
  UNISONO_DEVICE void send(const Tail& tail, const typename Tail::At& at, int b, int s, int warp, int lane,
                           const Beside& beside) const {
    tail.template store_slices<General::kInOrder, General::kFetches, kBoth>(at, b, s, warp, [&](int place) {
      Octets::for_each(lane, [&](int i, int row, int chunk) {
        const u32 to = place * Tail::kSliceBytes + SliceSwizzle<General::kSlice>::offset(row, chunk);
        *reinterpret_cast<uint4*>(tail.staging(warp) + to) = main[i];
        beside(i, to);
      });
    });
  }
};
// or none.
template <class General>
struct TiledOctets<General, 0> {
  UNISONO_DEVICE void put(int, const SharedOctet<General>&) {}
  template <class Tail>
  UNISONO_DEVICE void store(const Tail&, const typename Tail::At&, int, int, int, int) const {}
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
UNISONO_DEVICE void General<Tail>::last_pass(InShared, const At& at, const Row (&)[kRows], float*) {
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
      TiledOctets<General> octets;
      SliceOctets<kSlice>::for_each(lane(), [&](int i, int row, int chunk) {
        SharedOctet<General> own(*this, at, 64 * b + 16 * warp + row, s * kSlice + 8 * chunk);
        own.compute(sums + row * kLine + 8 * chunk);
        own.put();
        octets.put(i, own);
      });
      octets.store(tail, at, b, s, warp, lane());
    }
}

}  // namespace unisono
