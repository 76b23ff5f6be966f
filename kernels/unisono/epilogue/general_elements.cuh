// A general epilogue's last pass: results, effects, and what the tile adds to reductions over rows.
#pragma once
#include "unisono/epilogue/general.cuh"
#include "unisono/epilogue/vectors.cuh"

namespace unisono {

template <class Tail>
UNISONO_DEVICE void General<Tail>::elements(const At& at, const Row (&rows)[kRows], float* whole) {
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
  u32 packed[kEach], beside[kEach];
  int pair = 0;
  tail.template for_pairs<0, kTensors>(
      at, b, s, ring, end, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
        const int p = (b * kSlices + s) * kEach + pair, r = Fragment::thread_row(p), first = 2 * (pair / 2),
                  n = Fragment::channel(tail.thread, p), channel = at.first_channel + n;
        const bool exists = at.rows.valid(row_of(r)) && channel < tail.geometry.channels,
                   next = kPairs ? exists : exists && channel + 1 < tail.geometry.channels;
        const Where place = where(at, row_of(r));
        float v[2][larger(1, kValues)];
        typename Visitor::Result left, right;
        if constexpr (FormsOf<Visitor>::kAny) {
          const float sums[2] = {as_float(x), as_float(y)};
          const float* const columns[2] = {one, two};
          const float* const tensors[2] = {t1, t2};
          const Row of_pair[2] = {row_at(rows[r], r, n), row_at(rows[r], r, n + 1)};
          typename Visitor::Result pair_of[2];
          Visitor::elements(sums, columns, tensors, tail.uniform, of_pair, place, channel,
                            kPairs ? 0 : u32(place.m) * u32(tail.geometry.channels), exists + next, pair_of, v);
          left = pair_of[0], right = pair_of[1];
        } else {
          left =
              Visitor::element(as_float(x), one, t1, tail.uniform, row_at(rows[r], r, n), place, channel, exists, v[0]);
          right = Visitor::element(as_float(y), two, t2, tail.uniform, row_at(rows[r], r, n + 1), place, channel + 1,
                                   next, v[1]);
        }
        if constexpr (kTiled > 0)
          packed[pair] = Visitor::Output::pack(Visitor::tiled(left, 0), Visitor::tiled(right, 0));
        if constexpr (kTiled > 1) beside[pair] = Visitor::Side::pack(Visitor::tiled(left, 1), Visitor::tiled(right, 1));
        if constexpr (kPairs) {
          if (exists) Visitor::put(tail.visitor, u64(place.m) * tail.geometry.channels + channel, left, right);
        } else {
          if (exists) Visitor::put(tail.visitor, tail.offset_of(at, row_of(r), channel), left);
          if (next) Visitor::put(tail.visitor, tail.offset_of(at, row_of(r), channel + 1), right);
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float* value = v[e];
          const bool counts = e == 0 ? exists : next;
          slice.add(first + e, value, counts, shares.inverse[r]);
          value += kChannelFolds + kMoments;
#pragma unroll
          for (int i = 0; i < kTileFolds; ++i)
            whole[i] = join(Visitor::tile_fold(i), whole[i], counts ? value[i] : nothing_of(Visitor::tile_fold(i)));
        }
        ++pair;
      });
  if constexpr (kTiled > 0) tail.template store_pairs<kInOrder, kFetches, (kTiled > 1)>(at, b, s, packed, beside);
}

}  // namespace unisono
