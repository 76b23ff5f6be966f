// The way of reductions over rows from a tile to memory: its channels and its whole in shared memory, then the
// workspace, then the last of a column of tiles, then the last of all (epilogue/folds.cuh). A list has the reductions:
// StoredFolds those whose results are stored, ReturnedFolds (epilogue/returned.cuh) those of a level, which elements
// read again; what is said of their results there, stands here too.
#pragma once
#include "unisono/epilogue/fold_slice.cuh"
#include "unisono/epilogue/folds.cuh"
#include "unisono/epilogue/norm.cuh"
#include "unisono/epilogue/stored_folds.cuh"

namespace unisono {

template <class Tail, class List = StoredFolds<typename Tail::EpilogueVisitor>>
struct FoldColumns {
  using Visitor = typename Tail::EpilogueVisitor;
  using Fragment = typename Tail::Fragment;
  using At = typename Tail::At;
  static constexpr int kN = Tail::kN, kEach = Tail::kSlice / 4;
  static constexpr int kChannelFolds = List::kChannelFolds, kMoments = List::kMoments, kTileFolds = List::kTileFolds;
  static constexpr int kOwn = kChannelFolds + 2 * kMoments;     // words of a channel in shared memory, a warp
  static constexpr int kPlanes = kChannelFolds + 3 * kMoments;  // and in the workspace
  using Lanes = LaneFold<kEach>;

  const Tail& tail;

  UNISONO_DEVICE const FoldParams& folds() const { return tail.fixed.folds; }
  UNISONO_DEVICE float* own(int warp, int word) const {
    return reinterpret_cast<float*>(tail.memory + Tail::kFoldOffset) + (warp * kOwn + word) * kN;
  }
  UNISONO_DEVICE float* scratch() const { return own(4, 0); }  // four for each tile fold, and a word
  UNISONO_DEVICE int lane() const { return tail.thread & 31; }
  UNISONO_DEVICE int warp() const { return tail.thread / 32; }

  // Places: warpgroups' shares of an image's tiles of the same channels; tiles across; and channels with those past the
  // end.
  UNISONO_DEVICE int slots() const { return tail.slots(); }
  UNISONO_DEVICE int across() const { return tail.tiles_across(); }
  UNISONO_DEVICE size_t wide() const { return size_t(across()) * kN; }
  UNISONO_DEVICE int images() const { return tail.geometry.images; }
  // Where the workspace has this list's partial results, results and counters: stored ones first, then the lists of the
  // levels.
  UNISONO_DEVICE size_t cells() const { return size_t(images()) * slots() * wide(); }  // of a plane
  static constexpr int kStoredPlanes = Visitor::kChannelFolds + 3 * Visitor::kMoments;
  UNISONO_DEVICE float* partials() const { return folds().partials + List::partials_before(*this); }
  UNISONO_DEVICE float* results() const { return folds().results + List::results_before(*this); }
  // The first counts all columns; then each column has one, and of a returned list each image.
  UNISONO_DEVICE u32* counters() const { return folds().counters + List::counters_before(*this); }

  // This list's, for each segment of each column, then for each tile across.
  UNISONO_DEVICE u32* segment_counters() const {
    return folds().counters + 1 + images() * (across() + slots()) +
           returned_levels<Visitor, Tail::kNorm == Norm::kGeneral>() * (1 + images() * (across() + 1)) +
           List::number() * fold_segment_counters(images(), across(), slots());
  }

  // The channel of value k that this lane keeps of a slice.
  UNISONO_DEVICE int channel_of(int s, int k) const {
    return s * Tail::kSlice + Fragment::channel_of(tail.thread, Lanes::first_kept(lane()) + k);
  }
  // A slice's channels, over this warp's rows; `count` of them exist in this lane.
  UNISONO_DEVICE void add_slice(int s, float (&folded)[larger(1, kChannelFolds)][kEach],
                                float (&mean)[larger(1, kMoments)][kEach], float (&m2)[larger(1, kMoments)][kEach],
                                float count) const {
    auto channel = [&](int k) { return channel_of(s, k); };
#pragma unroll
    for (int i = 0; i < kChannelFolds; ++i) {
      Lanes::run(List::channel_fold(i), folded[i], lane());
#pragma unroll
      for (int k = 0; k < Lanes::kKept; ++k)
        if (Lanes::writes(lane())) own(warp(), i)[channel(k)] = folded[i][k];
    }
#pragma unroll
    for (int i = 0; i < kMoments; ++i) {
      Lanes::run(mean[i], m2[i], count, lane());
#pragma unroll
      for (int k = 0; k < Lanes::kKept; ++k)
        if (Lanes::writes(lane()))
          own(warp(), kChannelFolds + 2 * i)[channel(k)] = mean[i][k],
                                          own(warp(), kChannelFolds + 2 * i + 1)[channel(k)] = m2[i][k];
    }
  }

  // The same where each block of rows comes by itself: what `Chosen` has of the slice joins that of the blocks before.
  template <class Chosen>
  UNISONO_DEVICE void join_slice(const At& at, int b, int s, FoldSlice<List, kEach>& slice, float count) const {
    auto channel = [&](int k) { return channel_of(s, k); };
#pragma unroll
    for (int i = 0; i < kChannelFolds; ++i) {
      if (!Chosen::has(i)) continue;
      Lanes::run(List::channel_fold(i), slice.folded[i], lane());
#pragma unroll
      for (int k = 0; k < Lanes::kKept; ++k)
        if (Lanes::writes(lane())) join_fold(i, channel(k), b, slice.folded[i][k]);
    }
#pragma unroll
    for (int i = 0; i < kMoments; ++i) {
      if (!Chosen::has(kChannelFolds + i)) continue;
      Lanes::run(slice.mean[i], slice.m2[i], count, lane());
#pragma unroll
      for (int k = 0; k < Lanes::kKept; ++k)
        if (Lanes::writes(lane())) join_moments(at, i, channel(k), b, slice.mean[i][k], slice.m2[i][k]);
    }
  }
  // Block b of this warp's rows has a channel's fold, or mean and M2.
  UNISONO_DEVICE void join_fold(int i, int channel, int b, float value) const {
    float& to = own(warp(), i)[channel];
    to = b == 0 ? value : join(List::channel_fold(i), to, value);
  }
  UNISONO_DEVICE void join_moments(const At& at, int i, int channel, int b, float mean, float m2) const {
    float &to_mean = own(warp(), kChannelFolds + 2 * i)[channel],
          &to_m2 = own(warp(), kChannelFolds + 2 * i + 1)[channel];
    Moments all{rows_to(at, b), to_mean, to_m2};
    if (b == 0)
      all = {0.f, mean, m2};
    else
      merge(all, rows_to(at, b + 1) - all.count, mean, m2);
    to_mean = all.mean, to_m2 = all.m2;
  }
  // This warp's rows of the first `blocks` blocks.
  UNISONO_DEVICE float rows_to(const At& at, int blocks) const {
    int count = 0;
#pragma unroll
    for (int b = 0; b < Tail::kBlocks; ++b) count += b < blocks ? at.rows.valid_of_16(64 * b + 16 * warp()) : 0;
    return float(count);
  }

  // What the whole tile adds up to, over this warp.
  UNISONO_DEVICE void add_whole(float* whole) const {
#pragma unroll
    for (int i = 0; i < kTileFolds; ++i) {
#pragma unroll
      for (int bit = 1; bit < 32; bit *= 2)
        whole[i] = join(List::tile_fold(i), whole[i], __shfl_xor_sync(~0u, whole[i], bit));
      if (lane() == 0) scratch()[4 * i + warp()] = whole[i];
    }
  }
  UNISONO_DEVICE float joined(int i) const {  // of the four warps
    const float* of = scratch() + 4 * i;
    const Fold kind = List::tile_fold(i);
    return join(kind, join(kind, of[0], of[1]), join(kind, of[2], of[3]));
  }

  // True for the whole warpgroup if all `parties` have come here in this launch, this one last; what the others wrote
  // can be read then.
  UNISONO_DEVICE bool comes_last(u32* counter, int parties) const {
    u32* const word = reinterpret_cast<u32*>(scratch() + 4 * kTileFolds);
    tail.sync();
    if (tail.thread == 0) {
      delay_point();
      __threadfence();
      *word = increment_wrapping(counter, parties - 1) == u32(parties - 1);
      __threadfence();
    }
    tail.sync();
    const bool last = *word != 0;
    tail.sync();  // the word is read
    return last;
  }

  // After every warp has added its part.
  UNISONO_DEVICE void publish(const At& at) const {
    put<EveryFold>(at);
    count_in(at);
  }
  // All that this warpgroup adds to the tile's reductions is there.
  UNISONO_DEVICE void count_in(const At& at) const {
    // Without channels, finish_column() has a thread for each slot: up to eight loads of one are no reason for a level
    const int segments = kPlanes == 0 && slots() <= 8 * 128 ? 1 : fold_segments(slots()),
              together = segments > 1 ? fold_segment_slots(slots()) : 1;
    if (together > 1) {
      const int segment = at.slot / together, first = segment * together;
      if (!comes_last(segment_counters() + column(at) * segments + segment, smaller(together, slots() - first))) return;
      merge_segment(at, first, smaller(together, slots() - first));
    }
    if (comes_last(counters() + 1 + column(at), divide_up(slots(), together))) finish_column(at, together);
  }
  // What `members` slots from `first` have, into the first one's place.
  UNISONO_DEVICE void merge_segment(const At& at, int first, int members) const;
  // What `Chosen` has of it, to the warpgroup's place.
  template <class Chosen>
  UNISONO_DEVICE void put(const At& at) const {
    tail.sync();
    const size_t plane = size_t(images()) * slots() * wide(),
                 place = (size_t(at.image) * slots() + at.slot) * wide() + at.first_channel;
    float rows[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      int count = 0;
#pragma unroll
      for (int b = 0; b < Tail::kBlocks; ++b) count += at.rows.valid_of_16(64 * b + 16 * w);
      rows[w] = float(count);
    }
    for (int n = tail.thread; n < kN; n += 128) {
#pragma unroll
      for (int i = 0; i < kChannelFolds; ++i) {
        if (!Chosen::has(i)) continue;
        const Fold kind = List::channel_fold(i);
        partials()[i * plane + place + n] =
            join(kind, join(kind, own(0, i)[n], own(1, i)[n]), join(kind, own(2, i)[n], own(3, i)[n]));
      }
#pragma unroll
      for (int i = 0; i < kMoments; ++i) {
        if (!Chosen::has(kChannelFolds + i)) continue;
        MomentMerger merger;
#pragma unroll
        for (int w = 0; w < 4; ++w)
          merger.add(rows[w], own(w, kChannelFolds + 2 * i)[n], own(w, kChannelFolds + 2 * i + 1)[n]);
        put_moments(partials() + (kChannelFolds + 3 * i) * plane + place + n, plane, merger.total());
      }
    }
    if (tail.thread == 0) {
#pragma unroll
      for (int i = 0; i < kTileFolds; ++i)
        if (Chosen::has(kChannelFolds + kMoments + i)) tile_part(i, at)[at.slot] = joined(i);
    }
  }
  static UNISONO_DEVICE void put_moments(float* to, size_t plane, const Moments& m) {
    to[0] = m.count, to[plane] = m.mean, to[2 * plane] = m.m2;
  }

  UNISONO_DEVICE int column(const At& at) const { return at.image * across() + at.first_channel / kN; }
  UNISONO_DEVICE float* tile_part(int i, const At& at) const {
    return partials() + kPlanes * cells() + (size_t(i) * images() * across() + column(at)) * slots();
  }
  // Results of a column: [plane][image][channel], and of its whole [fold][image][tile across].
  UNISONO_DEVICE float* of_channels(int plane) const { return results() + size_t(plane) * images() * wide(); }
  UNISONO_DEVICE float* of_tiles(int i) const { return of_channels(kPlanes) + size_t(i) * images() * across(); }

  // All shares of a column of tiles are there, every `step`-th slot has what it and those after it have.
  UNISONO_DEVICE void finish_column(const At& at, int step) const;

  // Domains of one result a channel are done with a column, unless other images' columns belong to them.
  UNISONO_DEVICE bool ends_with_column(const FoldDomain& d) const {
    return d.groups == 0 && (d.per_image || images() == 1);
  }
  // Domains that wait for all columns, and those that wait for other images' columns of the same channels.
  UNISONO_DEVICE bool unfinished() const {
    bool any = false;
#pragma unroll
    for (int d = 0; d < List::kDomains; ++d) any |= List::domain(d).groups != 0;
    return any;
  }
  UNISONO_DEVICE bool spans_images() const {
    bool any = false;
#pragma unroll
    for (int d = 0; d < List::kDomains; ++d) any |= List::domain(d).groups == 0 && !ends_with_column(List::domain(d));
    return any;
  }
  UNISONO_DEVICE float rows_of(const FoldDomain& d) const {
    return float(tail.geometry.rows) * (d.per_image ? 1.f : float(images()));
  }

  // Calls f(Index) for each of the list's domains of a kind: of one result a channel; of groups of channels; of those
  // that wait for all columns.
  struct PerChannel {
    static UNISONO_DEVICE constexpr bool has(const FoldDomain& d) { return d.groups == 0; }
  };
  struct PerGroup {
    static UNISONO_DEVICE constexpr bool has(const FoldDomain& d) { return d.groups != 0; }
  };
  struct WaitForAll {
    static UNISONO_DEVICE constexpr bool has(const FoldDomain& d) { return List::waits_for_all(d); }
  };
  template <class Kind, class F>
  static UNISONO_DEVICE void for_domains(const F& f) {
    for_indices<0, List::kDomains>([&](auto number) {
      if constexpr (Kind::has(List::domain(decltype(number)::kValue))) f(number);
    });
  }

  UNISONO_DEVICE void finish_channels(int image, int channel, const float* folded, const Moments* moments) const;

  UNISONO_DEVICE void finish_all() const;
  // What an image is enough for.
  UNISONO_DEVICE void finish_image(int image) const;

  // Merges the columns of all images of a tile's channels.
  template <int d>
  UNISONO_DEVICE void finish_over_images(int first_channel) const;

  // By a warp: a group's channels, or all tiles across, of one image or of all.
  template <int d>
  UNISONO_DEVICE void finish_group(int image, int group) const;
};

}  // namespace unisono
