// Reductions over rows whose results elements read again, in a general epilogue: of an image or of all, for each
// channel, for groups of channels or for all of them. A level of them takes the way of those that are stored
// (epilogue/fold_columns.cuh); but its results go to the workspace as tagged entries, and every tile that reads them
// waits for them. So all tiles that share a result are in flight at once, as in the mode `resident`: each warpgroup
// publishes its share before it waits, and holds one of these tiles at most.
//
// The visitor says whether it has any, and supplies them then:
//   static constexpr bool kReturns;
//   template <int level> struct Returned;    a list: kChannelFolds, kMoments, channel_fold(i), kDomains, domain(d),
//                                            groups == 1 too by channel folds; and besides
//       static constexpr int values(int d);  that a result has
//       template <int d> static void conclude(float rows, float columns, const float* folded, const Moments*, float*
//           value);
//       static void share(float acc, const float* column, const float* tensor, const Uniform&, const Row&, int
//           channel, float* value);
//                                            what an element adds to channel folds and moments
//       static void columns(const Params&, const Uniform&, int image, int channel, const float* value, float*
//           column);
//                                            from all domains' results: the columns that are known with them
// and its `conclude` takes the tile's first columns before the row.
#pragma once
#include "unisono/epilogue/fold_columns.cuh"
#include "unisono/exchange/message.cuh"
#include "unisono/exchange/moments.cuh"
#include "unisono/exchange/row_exchange.cuh"

namespace unisono {

template <class Tail, int level>
struct ReturnedFolds : Returns<typename Tail::EpilogueVisitor>::template List<level> {
  using Visitor = typename Tail::EpilogueVisitor;
  using Own = typename Returns<Visitor>::template List<level>;
  using Columns = FoldColumns<Tail, ReturnedFolds>;
  static constexpr bool kReturned = true;
  static constexpr int kTileFolds = 0, kPlanesBefore = Returns<Visitor>::template planes<level>();
  static UNISONO_DEVICE constexpr Fold tile_fold(int) { return Fold::kSum; }
  static UNISONO_DEVICE size_t partials_before(const Columns& of) {
    return (Columns::kStoredPlanes + kPlanesBefore) * of.cells() +
           size_t(Visitor::kTileFolds) * of.images() * of.across() * of.slots();
  }
  static UNISONO_DEVICE size_t results_before(const Columns& of) {
    return of.images() *
           ((Columns::kStoredPlanes + kPlanesBefore) * of.wide() + size_t(Visitor::kTileFolds) * of.across());
  }
  static UNISONO_DEVICE int counters_before(const Columns& of) {
    return 1 + of.images() * (of.across() + of.slots()) + level * (1 + of.images() * (of.across() + 1));
  }
  static UNISONO_DEVICE constexpr int number() { return 1 + level; }
  // An image's own are delivered when it is complete, even if others are not.
  static UNISONO_DEVICE void finish_rest(const Columns& of, int image) {
    if (!of.comes_last(of.counters() + 1 + of.images() * of.across() + image, of.across())) return;
    of.finish_image(image);
    if (of.images() > 1 && over_images() && of.comes_last(of.counters(), of.images())) of.finish_all();
  }
  static UNISONO_DEVICE constexpr bool waits_for_all(const FoldDomain& d) { return d.groups != 0 && !d.per_image; }
  static UNISONO_DEVICE constexpr bool over_images() {
    for (int d = 0; d < Own::kDomains; ++d)
      if (!Own::domain(d).per_image) return true;
    return false;
  }

  // Entry `part` of a domain's results: [level, domain and part][image][channel or group], after those of the rows.
  template <int d>
  static UNISONO_DEVICE Entry* entry(const Columns& columns, int part, int image, int group) {
    size_t rows = 0;
    if constexpr (Tail::Configuration::kWide) {
      for (int l = 0; l < Visitor::kLevels; ++l) rows += divide_up(Visitor::row_folds(l), 3);
      rows *= entries_of_exchange(size_t(columns.images()) * columns.slots() * Tail::kPixels, columns.across());
    }
    const int first = Returns<Visitor>::template entries<level>() + Returns<Visitor>::template entries_to<level>(d);
    return reinterpret_cast<Entry*>(columns.folds().rows) + rows +
           (size_t(first + part) * columns.images() + image) * columns.wide() + group;
  }

  template <int d>
  static UNISONO_DEVICE void deliver(const Columns& columns, int image, int group, float rows, float width,
                                     const float* folded, const Moments* moments) {
    constexpr int kValues = Own::values(d);
    float value[kValues];
    Own::template conclude<d>(rows, width, folded, moments, value);
#pragma unroll
    for (int part = 0; part < divide_up(kValues, 3); ++part) {
      auto of = [&](int i) { return 3 * part + i < kValues ? value[smaller(3 * part + i, kValues - 1)] : 0.f; };
      write_entry(entry<d>(columns, part, image, group), of(0), of(1), of(2), columns.tail.epoch);
    }
  }

  // Waits for a channel's results, of all domains.
  static UNISONO_DEVICE void await(const Columns& columns, int image, int channel, float* value) {
    for_indices<0, Own::kDomains>([&](auto number) {
      constexpr int d = decltype(number)::kValue;
      constexpr FoldDomain domain = Own::domain(d);
      constexpr int kValues = Own::values(d), kParts = divide_up(kValues, 3);
      const int group = domain.groups == 0   ? channel
                        : domain.groups == 1 ? 0
                                             : channel / (columns.tail.geometry.channels / domain.groups);
      uint4 read[kParts];
      Watchdog watchdog;
      delay_point();
      for (;;) {
        bool complete = true;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          read[part] = load_whole(entry<d>(columns, part, domain.per_image ? image : 0, group));
          complete &= read[part].w == columns.tail.epoch + 1;
        }
        if (complete) break;
        __nanosleep(kPollPause);
        watchdog.tick();
      }
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        const uint4& of = read[i / 3];
        value[i] = __uint_as_float(i % 3 == 0 ? of.x : i % 3 == 1 ? of.y : of.z);
      }
      value += kValues;
    });
  }
  static UNISONO_DEVICE constexpr int all_values() {
    int count = 0;
    for (int d = 0; d < Own::kDomains; ++d) count += Own::values(d);
    return count;
  }
};

}  // namespace unisono
