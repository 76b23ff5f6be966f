// Reductions of a general epilogue: over the channels of a row, over groups of them, and over rows where elements read
// the results again.
#pragma once
#include "unisono/epilogue/general.cuh"

namespace unisono {

template <class Tail>
template <int store>
UNISONO_DEVICE void General<Tail>::close_groups(const At& at, const Row (&rows)[kRows]) const {
  constexpr int kWidth = Visitor::group_store_width(store);
  const int first = at.first_channel / kWidth,
            count = smaller(Tail::kN, tail.geometry.channels - at.first_channel) / kWidth;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (!at.rows.valid(row_of(r))) continue;
    for (int g = lane() & 3; g < count; g += 4)
      Visitor::template close_group<store>(tail.visitor, tail.uniform, where(at, row_of(r)),
                                           row_at(rows[r], r, g * kWidth), tail.geometry.channels / kWidth, first + g);
  }
}

template <class Tail>
template <int level>
UNISONO_DEVICE void General<Tail>::fold_rows(const At& at, Row (&rows)[kRows]) {
  if constexpr (level < Visitor::kLevels) {
    constexpr int kFolds = Visitor::row_folds(level);
    float folded[kRows][larger(1, kFolds)];
    reduce_tile<level>(at, rows, folded);
    if constexpr (kFolds > 0 && Config::kWide && Config::kMeets) {
      publish<level>(at, folded);
      share<level>(at);
      collect<level>(at, folded);
    }
    Returning::template share_level<level>(*this, at, rows);
    Returning::template take_level<level>(*this, at);
    if constexpr (Config::kWide && !Config::kMeets) {
      static_assert(level == 0 && Visitor::kLevels == 1, "several tiles across reduce over channels once");
      meet<kFolds>(at, folded);
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) conclude<level>(folded[r], rows[r]);
      fold_rows<level + 1>(at, rows);
    }
  }
}

template <class Tail>
template <int level, int kCount>
UNISONO_DEVICE void General<Tail>::reduce_tile(const At& at, const Row (&rows)[kRows], float (&folded)[kRows][kCount]) {
  constexpr int kFolds = Visitor::row_folds(level);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int i = 0; i < kFolds; ++i) folded[r][i] = nothing_of(Visitor::row_fold(level, i));
  if constexpr (kFolds + Groups::folds(level) > 0) pass<level>(at, rows, folded);
  if constexpr (kFolds > 0) join_lanes<level>(folded);
}

template <class Tail>
template <int level, int kCount>
UNISONO_DEVICE void General<Tail>::conclude(const float (&folded)[kCount], Row& row) const {
  Returning::template conclude<level>(tail, folded, row);
}

template <class Tail>
template <int level, int kCount>
UNISONO_DEVICE void General<Tail>::pass(const At& at, const Row (&rows)[kRows], float (&folded)[kRows][kCount]) {
  constexpr int kFolds = Visitor::row_folds(level), kGroupFolds = Groups::folds(level);
  const auto rows_of = [&](int r) { return row_of(r); };
  groups().template open_all<level>(rows_of, Index<kRows>());
  Ring ring{tail.visitor, tail.geometry, tail.thread / 32, lane()};
  ring.open(0, Tail::kPairs, at);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      int pair = 0;
      tail.template for_pairs<0, kTensors>(
          at, b, s, ring, Tail::kPairs,
          [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
            const int p = (b * kSlices + s) * kEach + pair, r = Fragment::thread_row(p),
                      chunk = s * kSlice + 8 * (pair / 2), n = Fragment::channel(tail.thread, p),
                      channel = at.first_channel + n;
            ++pair;
            const bool exists = channel < tail.geometry.channels, both = kPairs || channel + 1 < tail.geometry.channels;
            if (kGroupFolds == 0 && !exists) return;
            float v[kFolds + kGroupFolds], w[kFolds + kGroupFolds];
            Visitor::template contribute<level>(as_float(x), one, t1, tail.uniform, row_at(rows[r], r, n), channel, v);
            Visitor::template contribute<level>(as_float(y), two, t2, tail.uniform, row_at(rows[r], r, n + 1),
                                                channel + 1, w);
            groups().template add<level>(row_of(r), chunk, v + kFolds, w + kFolds, exists, exists && both);
#pragma unroll
            for (int i = 0; i < kFolds; ++i) w[i] = both ? w[i] : nothing_of(Visitor::row_fold(level, i));
            if (kGroupFolds > 0 && !exists) return;
#pragma unroll
            for (int i = 0; i < kFolds; ++i)
              folded[r][i] =
                  join(Visitor::row_fold(level, i), folded[r][i], join(Visitor::row_fold(level, i), v[i], w[i]));
          });
    }
  groups().template close_all<level>(rows_of, Index<kRows>());
}

template <class Tail>
template <int level>
UNISONO_DEVICE void General<Tail>::share_level(const At& at, const Row (&rows)[kRows]) {
  using Folds = ReturnedFolds<Tail, level>;
  if constexpr (Folds::kDomains > 0) {
    const FoldColumns<Tail, Folds> own{tail};
    const Shares shares(*this, at);
    Ring ring{tail.visitor, tail.geometry, tail.thread / 32, lane()};
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      Slice<Folds> slice;
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        const int begin = (b * kSlices + s) * kEach;
        int pair = 0;
        ring.open(begin, begin + kEach, at);
        tail.template for_pairs<0, kTensors>(
            at, b, s, ring, begin + kEach,
            [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
              const int p = (b * kSlices + s) * kEach + pair, r = Fragment::thread_row(p), first = 2 * (pair / 2),
                        n = Fragment::channel(tail.thread, p), channel = at.first_channel + n;
              ++pair;
              float v[Folds::kChannelFolds + Folds::kMoments], w[Folds::kChannelFolds + Folds::kMoments];
              Folds::share(as_float(x), one, t1, tail.uniform, row_at(rows[r], r, n), channel, v);
              Folds::share(as_float(y), two, t2, tail.uniform, row_at(rows[r], r, n + 1), channel + 1, w);
              const bool exists = at.rows.valid(row_of(r));
              slice.add(first, v, exists, shares.inverse[r]);
              slice.add(first + 1, w, exists, shares.inverse[r]);
            });
      }
      own.add_slice(s, slice.folded, slice.mean, slice.m2, shares.seen);
    }
    own.publish(at);
  }
}

template <class Tail>
template <int level>
UNISONO_DEVICE void General<Tail>::take_level(const At& at) {
  using Folds = ReturnedFolds<Tail, level>;
  if constexpr (Folds::kDomains > 0) {
    const FoldColumns<Tail, Folds> own{tail};
    for (int n = tail.thread; n < Tail::kN && at.first_channel + n < tail.geometry.channels; n += 128) {
      float value[Folds::all_values()], column[larger(1, Tail::kColumns)];
      Folds::await(own, at.image, at.first_channel + n, value);
#pragma unroll
      for (int c = 0; c < Tail::kColumns; ++c) column[c] = tail.columns()[c * Tail::kN + n];
      Folds::columns(tail.visitor, tail.uniform, at.image, at.first_channel + n, value, column);
#pragma unroll
      for (int c = 0; c < Tail::kColumns; ++c) tail.columns()[c * Tail::kN + n] = column[c];
    }
    tail.sync();
  }
}

template <class Tail>
template <int level, int kFolds>
UNISONO_DEVICE void General<Tail>::join_lanes(float (&folded)[kRows][kFolds]) const {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int i = 0; i < kFolds; ++i)
#pragma unroll
      for (int bit = 1; bit <= 2; bit *= 2)
        folded[r][i] = join(Visitor::row_fold(level, i), folded[r][i], __shfl_xor_sync(~0u, folded[r][i], bit));
}

// Reductions [first, first + 3) of a level, as far as they exist: what tiles exchange in one entry.
template <class Visitor, int level, int first>
struct FoldsOfRow {
  static constexpr int kAtOnce = 1;  // few registers are left by the accumulators and values of rows
  static constexpr int kCount = smaller(3, Visitor::row_folds(level) - first);
  float value[kCount];

  UNISONO_DEVICE FoldsOfRow() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) value[i] = nothing_of(fold(i));
  }
  static UNISONO_DEVICE constexpr Fold fold(int i) { return Visitor::row_fold(level, first + i); }
  UNISONO_DEVICE void add(float x, float y, float z) {
    const float of[3] = {x, y, z};
#pragma unroll
    for (int i = 0; i < kCount; ++i) value[i] = join(fold(i), value[i], of[i]);
  }
  template <int kLanes>
  UNISONO_DEVICE RowTriple over() const {
    float all[3] = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      all[i] = value[i];
#pragma unroll
      for (int bit = 1; bit < kLanes; bit *= 2) all[i] = join(fold(i), all[i], __shfl_xor_sync(~0u, all[i], bit));
    }
    return {all[0], all[1], all[2]};
  }
};

template <class Tail>
template <int level, int first>
UNISONO_DEVICE auto General<Tail>::exchange_of(const At& at) const {
  return RowExchange<FoldsOfRow<Visitor, level, first>, Tail>::of(tail, at, entries(level) + first / 3);
}

template <class Tail>
template <int level, int kFolds>
UNISONO_DEVICE void General<Tail>::publish(const At& at, const float (&folded)[kRows][kFolds]) const {
  for_indices<0, divide_up(kFolds, 3)>([&](auto part) {
    constexpr int first = 3 * decltype(part)::kValue;
    RowTriple own[kRows];
    auto value = [&](int r, int i) { return i < kFolds ? folded[r][smaller(i, kFolds - 1)] : 0.f; };
#pragma unroll
    for (int r = 0; r < kRows; ++r) own[r] = {value(r, first), value(r, first + 1), value(r, first + 2)};
    exchange_of<level, first>(at).publish(own);
  });
}

template <class Tail>
template <int level, int kFolds>
UNISONO_DEVICE void General<Tail>::collect(const At& at, float (&folded)[kRows][kFolds]) const {
  for_indices<0, divide_up(kFolds, 3)>([&](auto part) {
    constexpr int first = 3 * decltype(part)::kValue;
    RowTriple all[kRows];
    exchange_of<level, first>(at).collect(all);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float of[3] = {all[r].x, all[r].y, all[r].z};
#pragma unroll
      for (int i = first; i < smaller(first + 3, kFolds); ++i) folded[r][i] = of[i - first];
    }
  });
}

template <class Tail>
template <int level>
UNISONO_DEVICE void General<Tail>::share(const At& at) const {
  for_indices<0, divide_up(Visitor::row_folds(level), 3)>(
      [&](auto part) { this->template exchange_of<level, 3 * decltype(part)::kValue>(at).share(); });
}

template <class Tail>
template <int kFolds>
UNISONO_DEVICE void General<Tail>::meet(const At& at, const float (&folded)[kRows][kFolds]) {
  const Columns columns{tail};
  const size_t slot = size_t(at.image) * columns.slots() + at.slot,
               plane = size_t(tail.geometry.images) * columns.slots() * columns.across() * Tail::kPixels;
  float* const own = tail.fixed.folds.rows + slot * columns.across() * Tail::kPixels;
  if (leads()) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kFolds; ++i)
        own[i * plane + at.first_channel / Tail::kN * Tail::kPixels + row_of(r)] = folded[r][i];
  }
  if (!columns.comes_last(tail.fixed.folds.counters + 1 + tail.geometry.images * columns.across() + slot,
                          columns.across()))
    return;
  for (int m = tail.thread; m < Tail::kPixels; m += 128) {
    if (!at.rows.valid(m)) continue;
    Row row = Visitor::row(tail.visitor, tail.uniform, where(at, m));
    float total[kFolds], none[larger(1, kTileFolds)];
#pragma unroll
    for (int i = 0; i < kFolds; ++i)
      total[i] = fold_in_order(Visitor::row_fold(0, i), own + i * plane + m, Tail::kPixels, columns.across());
    Visitor::template conclude<0>(tail.uniform, float(tail.geometry.channels), total, row);
    Visitor::close_row(tail.visitor, tail.uniform, where(at, m), row, none);
  }
}

}  // namespace unisono
