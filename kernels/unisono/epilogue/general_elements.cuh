// A general epilogue's last pass: results, effects, and what the tile adds to reductions over rows.
#pragma once
#include "unisono/epilogue/general.cuh"
#include "unisono/epilogue/packed_pairs.cuh"
#include "unisono/epilogue/vectors.cuh"

namespace unisono {

template <class Tail>
UNISONO_DEVICE void General<Tail>::last_pass(InRegisters, const At& at, const Row (&rows)[kRows], float* whole) {
  const Shares shares(*this, at);
  ElementRing ring{tail.visitor, tail.geometry, tail.thread / 32, lane()};
  const typename Tail::template Fetching<kFetches> fetch{tail};
  if constexpr (kInOrder) {
    ring.open(0, Tail::kPairs, at);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        Slice<Visitor> slice;
        fetch.await(b * kSlices + s, ring);
        elements_of(at, rows, b, s, ring, Tail::kPairs, shares, slice, whole);
        if (kTiled > 0)
          fetch.refill(at, b * kSlices + s);
        else
          fetch.refill_read(at, b * kSlices + s);
        if constexpr (kChannels) Columns{tail}.add_slice(s, slice.folded, slice.mean, slice.m2, shares.seen);
      }
  } else {
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      Slice<Visitor> slice;
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        const int first = (b * kSlices + s) * kEach;
        ring.open(first, first + kEach, at);
        elements_of(at, rows, b, s, ring, first + kEach, shares, slice, whole);
      }
      Columns{tail}.add_slice(s, slice.folded, slice.mean, slice.m2, shares.seen);
    }
  }
}

template <class Tail>
UNISONO_DEVICE void General<Tail>::elements_of(const At& at, const Row (&rows)[kRows], int b, int s, ElementRing& ring,
                                               int end, const Shares& shares, Slice<Visitor>& slice, float* whole) {
  TiledPairs<Visitor, kEach> packed;
  int pair = 0;
  tail.template for_pairs<0, kTensors>(
      at, b, s, ring, end, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
        const int p = (b * kSlices + s) * kEach + pair, r = Fragment::thread_row(p), first = 2 * (pair / 2),
                  n = Fragment::channel(tail.thread, p), channel = at.first_channel + n;
        const bool exists = at.rows.valid(row_of(r)) && channel < tail.geometry.channels,
                   next = kPairs ? exists : exists && channel + 1 < tail.geometry.channels;
        const Where place = where(at, row_of(r));
        const auto counts = [&](int e) { return e == 0 ? exists : next; };
        const float sums[2] = {as_float(x), as_float(y)};
        const float* const columns[2] = {one, two};
        const float* const tensors[2] = {t1, t2};
        const Row of_pair[2] = {row_at(rows[r], r, n), row_at(rows[r], r, n + 1)};
        typename Visitor::Result results[2];
        float v[2][larger(1, kValues)];
        RowElements<Visitor>::compute(sums, columns, tensors, tail.uniform, of_pair, place, channel,
                                      kPairs ? 0 : u32(place.m) * u32(tail.geometry.channels), exists + next, counts,
                                      results, v);
        packed.put(pair, results[0], results[1]);
        Effects::put(tail, at, row_of(r), place, channel, 0, exists, next, results[0], results[1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float* value = v[e];
          slice.add(first + e, value, counts(e), shares.inverse[r]);
          value += kChannelFolds + kMoments;
#pragma unroll
          for (int i = 0; i < kTileFolds; ++i)
            whole[i] = join(Visitor::tile_fold(i), whole[i], counts(e) ? value[i] : nothing_of(Visitor::tile_fold(i)));
        }
        ++pair;
      });
  packed.to([&](const auto& pairs) { tail.template store_pairs<kInOrder, kFetches>(at, b, s, pairs); });
}

}  // namespace unisono
