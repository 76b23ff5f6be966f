// From the shares of a column of tiles to results: by the last of a segment, of the column, and of all.
#pragma once
#include "unisono/epilogue/fold_columns.cuh"

namespace unisono {

template <class Tail, class List>
UNISONO_DEVICE void FoldColumns<Tail, List>::merge_segment(const At& at, int first, int members) const {
  const size_t plane = size_t(images()) * slots() * wide(),
               place = (size_t(at.image) * slots() + first) * wide() + at.first_channel;
  for (int n = tail.thread; n < kN && at.first_channel + n < tail.geometry.channels; n += 128) {
    float folded[larger(1, kChannelFolds)];
    folds_in_order<kChannelFolds>([](int i) { return List::channel_fold(i); }, partials() + place + n, plane, wide(),
                                  members, folded);
#pragma unroll
    for (int i = 0; i < kChannelFolds; ++i) partials()[i * plane + place + n] = folded[i];
#pragma unroll
    for (int i = 0; i < kMoments; ++i) {
      float* const of = partials() + (kChannelFolds + 3 * i) * plane + place + n;
      put_moments(of, plane, moments_in_order(of, plane, wide(), members));
    }
  }
  if (warp() != 0) return;
#pragma unroll
  for (int i = 0; i < kTileFolds; ++i) {
    float* const of = tile_part(i, at) + first;
    float value = fold_in_order(List::tile_fold(i), of + lane(), 32, divide_up(larger(0, members - lane()), 32));
#pragma unroll
    for (int bit = 1; bit < 32; bit *= 2) value = join(List::tile_fold(i), value, __shfl_xor_sync(~0u, value, bit));
    __syncwarp();  // every lane has read the places
    if (lane() == 0) of[0] = value;
  }
}

template <class Tail, class List>
UNISONO_DEVICE void FoldColumns<Tail, List>::finish_column(const At& at, int step) const {
  const size_t plane = size_t(images()) * slots() * wide(),
               first = size_t(at.image) * slots() * wide() + at.first_channel;
  const size_t to = size_t(at.image) * wide() + at.first_channel, result_plane = size_t(images()) * wide();
  const int count = divide_up(slots(), step);
  for (int n = tail.thread; n < kN && at.first_channel + n < tail.geometry.channels; n += 128) {
    float folded[larger(1, kChannelFolds)];
    Moments moments[larger(1, kMoments)];
    folds_in_order<kChannelFolds>([](int i) { return List::channel_fold(i); }, partials() + first + n, plane,
                                  step * wide(), count, folded);
#pragma unroll
    for (int i = 0; i < kChannelFolds; ++i) of_channels(i)[to + n] = folded[i];
#pragma unroll
    for (int i = 0; i < kMoments; ++i) {
      moments[i] =
          moments_in_order(partials() + (kChannelFolds + 3 * i) * plane + first + n, plane, step * wide(), count);
      put_moments(of_channels(kChannelFolds + 3 * i) + to + n, result_plane, moments[i]);
    }
    finish_channels(at.image, at.first_channel + n, folded, moments);
  }
#pragma unroll
  for (int i = 0; i < kTileFolds; ++i) {
    const int own_slots = tail.thread < count ? divide_up(count - tail.thread, 128) : 0;
    float value = fold_in_order(List::tile_fold(i), tile_part(i, at) + tail.thread * step, 128 * step, own_slots);
#pragma unroll
    for (int bit = 1; bit < 32; bit *= 2) value = join(List::tile_fold(i), value, __shfl_xor_sync(~0u, value, bit));
    if (lane() == 0) scratch()[4 * i + warp()] = value;
  }
  tail.sync();
  if (tail.thread == 0) {
#pragma unroll
    for (int i = 0; i < kTileFolds; ++i) of_tiles(i)[column(at)] = joined(i);
  }
  if (spans_images()) {
    const int tile = at.first_channel / kN;
    u32* const counter = segment_counters() + images() * across() * fold_segments(slots()) + tile;
    if (comes_last(counter, images()))
      for_domains<PerChannel>([&](auto d) {
        if (!ends_with_column(List::domain(d.kValue))) finish_over_images<d.kValue>(at.first_channel);
      });
  }
  if (!unfinished()) return;
  List::finish_rest(*this, at.image);
}

template <class Tail, class List>
UNISONO_DEVICE void FoldColumns<Tail, List>::finish_channels(int image, int channel, const float* folded,
                                                             const Moments* moments) const {
  for_domains<PerChannel>([&](auto number) {
    constexpr int d = decltype(number)::kValue;
    constexpr FoldDomain domain = List::domain(d);
    if (ends_with_column(domain))
      List::template deliver<d>(*this, image, channel, rows_of(domain), 1.f, folded + domain.first_fold,
                                moments + domain.first_moment);
  });
}

template <class Tail, class List>
UNISONO_DEVICE void FoldColumns<Tail, List>::finish_all() const {
  for_domains<WaitForAll>([&](auto number) {
    constexpr int d = decltype(number)::kValue;
    constexpr FoldDomain domain = List::domain(d);
    const int results = (domain.per_image ? images() : 1) * domain.groups;
    for (int i = warp(); i < results; i += 4) finish_group<d>(i / domain.groups, i % domain.groups);
  });
}

template <class Tail, class List>
UNISONO_DEVICE void FoldColumns<Tail, List>::finish_image(int image) const {
  for_domains<PerGroup>([&](auto number) {
    constexpr int d = decltype(number)::kValue;
    constexpr FoldDomain domain = List::domain(d);
    if (domain.per_image || images() == 1)
      for (int i = warp(); i < domain.groups; i += 4) finish_group<d>(image, i);
  });
}

template <class Tail, class List>
template <int d>
UNISONO_DEVICE void FoldColumns<Tail, List>::finish_over_images(int first_channel) const {
  constexpr FoldDomain domain = List::domain(d);
  const size_t plane = size_t(images()) * wide();
  for (int n = tail.thread; n < kN && first_channel + n < tail.geometry.channels; n += 128) {
    const int c = first_channel + n;
    float folded[larger(1, domain.folds)];
    Moments moments[larger(1, domain.moments)];
    folds_in_order<domain.folds>([](int i) { return List::channel_fold(List::domain(d).first_fold + i); },
                                 of_channels(domain.first_fold) + c, plane, wide(), images(), folded);
#pragma unroll
    for (int i = 0; i < domain.moments; ++i)
      moments[i] =
          moments_in_order(of_channels(kChannelFolds + 3 * (domain.first_moment + i)) + c, plane, wide(), images());
    List::template deliver<d>(*this, 0, c, rows_of(domain), 1.f, folded, moments);
  }
}

template <class Tail, class List>
template <int d>
UNISONO_DEVICE void FoldColumns<Tail, List>::finish_group(int image, int group) const {
  constexpr FoldDomain domain = List::domain(d);
  constexpr bool kByTile = !List::kReturned && domain.by_tile();
  const int width = tail.geometry.channels / domain.groups, count = domain.per_image ? 1 : images();
  const size_t plane = size_t(images()) * wide();
  float folded[larger(1, domain.folds)];
  Moments moments[larger(1, domain.moments)];
#pragma unroll
  for (int i = 0; i < domain.folds; ++i) {
    const Fold kind = kByTile ? List::tile_fold(domain.first_fold + i) : List::channel_fold(domain.first_fold + i);
    const float* from = kByTile ? of_tiles(domain.first_fold + i) + size_t(image) * across()
                                : of_channels(domain.first_fold + i) + size_t(image) * wide() + group * width;
    const int run = kByTile ? across() : width;
    float value = nothing_of(kind);
    for (int e = lane(); e < run * count; e += 32)
      value = join(kind, value, load_l2(from + (kByTile ? size_t(e) : e / run * wide() + e % run)));
#pragma unroll
    for (int bit = 1; bit < 32; bit *= 2) value = join(kind, value, __shfl_xor_sync(~0u, value, bit));
    folded[i] = value;
  }
#pragma unroll
  for (int i = 0; i < domain.moments; ++i) {
    const float* from =
        of_channels(kChannelFolds + 3 * (domain.first_moment + i)) + size_t(image) * wide() + group * width;
    MomentMerger merger;
    for (int e = lane(); e < width * count; e += 32) {
      const float* at = from + e / width * wide() + e % width;
      merger.add(load_l2(at), load_l2(at + plane), load_l2(at + 2 * plane));
    }
    moments[i] = merger.total();
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float n = __shfl_down_sync(~0u, moments[i].count, distance),
                  mean = __shfl_down_sync(~0u, moments[i].mean, distance);
      merge(moments[i], n, mean, __shfl_down_sync(~0u, moments[i].m2, distance));
    }
  }
  if (lane() == 0) List::template deliver<d>(*this, image, group, rows_of(domain), float(width), folded, moments);
}

}  // namespace unisono
