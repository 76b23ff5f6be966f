// A general epilogue's last pass: results, effects, and what the tile adds to reductions over rows.
#pragma once
#include "unisono/epilogue/general.cuh"
#include "unisono/epilogue/vectors.cuh"

namespace unisono {

template <class Config, class Visitor>
UNISONO_DEVICE void General<Config, Visitor>::elements(const At& at, const Row (&rows)[kRows], float* whole) {
  const Shares shares(*this, at);
  ElementRing ring{tail.visitor, tail.geometry, tail.thread / 32, lane()};
  const Fetch<Tail> fetch{tail};
  if constexpr (kInOrder) {
    ring.open(0, Tail::kPairs, at);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        Slice<Visitor> slice;
        if constexpr (kFetches) fetch.await((b * kSlices + s) % kBuffers, ring);
        elements_of(at, rows, b, s, ring, Tail::kPairs, shares, slice, whole);
        if constexpr (kFetches && kTiled > 0)
          fetch.refill(at, b * kSlices + s);
        else if constexpr (kFetches)
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

template <class Config, class Visitor>
UNISONO_DEVICE void General<Config, Visitor>::elements_of(const At& at, const Row (&rows)[kRows], int b, int s,
                                                          ElementRing& ring, int end, const Shares& shares,
                                                          Slice<Visitor>& slice, float* whole) {
  u32 packed[kEach], beside[kEach];
  int pair = 0;
  tail.template for_pairs<0, kTensors>(
      at, b, s, ring, end, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
        const int r = 2 * b + (pair & 1), first = 2 * (pair / 2), n = s * kSlice + 8 * (pair / 2) + 2 * (lane() & 3),
                  channel = at.first_channel + n;
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
  if constexpr (kTiled > 0)
    store_slices(at, b, s, tail.thread / 32, [&](int place) {
      tail.write_slice(tail.staging(0) + place * Tail::kSliceBytes, Tail::kStaging, packed);
      if constexpr (kTiled > 1) tail.write_slice(tail.side_staging(0, place), Tail::kSideStaging, beside);
    });
}

template <class Config, class Visitor>
template <class F>
UNISONO_DEVICE void General<Config, Visitor>::store_slices(const At& at, int b, int s, int warp, const F& write) {
  const int place = (kInOrder ? b * kSlices + s : s * kBlocks + b) % kBuffers;
  if constexpr (Tail::kShared) {
    if (!kFetches && b + s == 0) tail.open_staging();
  } else if (!kFetches && lane() == 0) {
    if (Tail::kStoresPerTile % kBuffers != 0 && b + s == 0)
      tma_store_wait_read<0>();
    else
      tma_store_wait_read<kBuffers - 1>();
  }
  __syncwarp();
  write(place);
  tail.template close_slice<kBuffers, kFetches>();
  if constexpr (!Tail::kByTma) {
    tail.store_plain(tail.fixed.output, tail.staging(warp) + place * Tail::kSliceBytes, at, 64 * b + 16 * warp,
                     s * kSlice);
    if constexpr (kTiled > 1)
      tail.store_plain(tail.fixed.side, tail.side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice);
  } else if (lane() == 0) {
    if constexpr (!stores_octets<Config>())
      tail.store_main(tail.staging(warp) + place * Tail::kSliceBytes, at, 64 * b + 16 * warp, s * kSlice);
    if constexpr (kTiled > 1)
      Tail::store_slice(tail.side_map(at), tail.side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice);
    tma_store_commit();
  }
  if constexpr (stores_octets<Config>())
    OctetStores<Config, Visitor>{tail}.store(tail.staging(warp) + place * Tail::kSliceBytes, at, 64 * b + 16 * warp,
                                             s * kSlice);
  tail.store_pooled(tail.staging(warp) + place * Tail::kSliceBytes, at, 64 * b + 16 * warp, s * kSlice);
}

}  // namespace unisono
