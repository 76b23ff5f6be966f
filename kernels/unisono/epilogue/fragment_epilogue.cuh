// An epilogue that knows of a kernel's instructions its fragment alone (epilogue/fragment.cuh): visitor, statistics and
// their exchange, and ordinary stores of pairs from registers. No TMA, no wgmma. A configuration has
//
//   using Fragment        epilogue/fragment.cuh, of a tile of one warpgroup
//   Norm kNorm            kNone or kResident
//   int kUnit             exchange/statistics_exchange.cuh
//
// A kernel calls, of each tile: Columns::load ahead of its main loop, then finish(). Tiles of an image wait for one
// another if it is normalised: all of them are in flight at once.
#pragma once
#include "unisono/epilogue/columns.cuh"
#include "unisono/epilogue/fragment.cuh"
#include "unisono/epilogue/norm.cuh"
#include "unisono/epilogue/placed.cuh"
#include "unisono/epilogue/visitor.cuh"
#include "unisono/exchange/sm90_publish_moments.cuh"
#include "unisono/params/tile_params.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Config, class Visitor>
struct FragmentEpilogue {
  using EpilogueVisitor = Visitor;
  using Fragment = typename Config::Fragment;
  using Accumulators = typename Fragment::Accumulators;
  using At = WarpgroupTile<LinearRows>;
  static constexpr Norm kNorm = Config::kNorm;
  static_assert(kNorm == Norm::kNone || kNorm == Norm::kResident, "tiles wait in registers, if they do");
  static constexpr bool kNormalises = kNorm == Norm::kResident, kSwap = false, kCentred = false;
  static constexpr int kN = Fragment::kChannels, kPixels = Fragment::kRows, kBlocks = kPixels / 64,
                       kAccBlocks = kBlocks, kAccCount = kN / 2, kUnit = Config::kUnit, kMoments = 0;
  static_assert(kN % kUnit == 0, "a unit of channels does not cross tiles");

  // Column values in shared memory: the visitor's for `before`, those for `after`, then mean, factor, shift.
  static constexpr int kLateWords = divide_up(int(sizeof(typename Visitor::Late)), 4);
  static constexpr int kBefore = kNormalises ? Visitor::kColumnsBefore : 0, kAfter = Visitor::kColumnsAfter,
                       kLateColumns = kNormalises && sizeof(typename Visitor::Late) >= 4 ? kLateWords : 0;
  static constexpr int kMean = kBefore + kAfter, kFactor = kMean + 1, kShift = kMean + 2,
                       kColumns = kMean + (kNormalises ? 1 + larger(2, kLateColumns) : 0);
  static constexpr int kTensorsBefore = kNormalises ? Visitor::kTensorsBefore : 0;
  static constexpr SideStore kSide = Visitor::kSide;
  static constexpr int kScratch = kN + 126;                      // statistics of a group's units
  static constexpr int kMomentBytes = kNormalises ? kN * 8 : 0;  // a warp
  static constexpr int kBytes =
      kColumns * kN * 4 + (kNormalises ? larger(4 * kMomentBytes, kScratch* int(sizeof(Moments))) : 0);
  using Columns = TileColumns<FragmentEpilogue>;

  const TileParams& fixed;
  const ConvGeometry& geometry;
  const ExchangeParams& norm;
  const typename Visitor::Params& visitor;
  const typename Visitor::Uniform& uniform;
  u8* const memory;  // kBytes, of 16
  const int thread, barrier;
  const u32 epoch;
  Accumulators& acc;

  UNISONO_DEVICE float* columns() const { return reinterpret_cast<float*>(memory); }
  UNISONO_DEVICE u8* moments(int warp) const { return memory + kColumns * kN * 4 + warp * kMomentBytes; }
  UNISONO_DEVICE void sync() const { named_barrier(barrier, 128); }

  UNISONO_DEVICE void finish(const At& at, const Columns& of_tile) {
    of_tile.put(*this, at);
    sync();
    if constexpr (kNormalises) {
      apply_before(at);
      MomentPublisher<FragmentEpilogue>{*this}.publish(at, at.rows.all_valid(kPixels));
      sync();
      load_statistics(at);
    }
    store_result(at);
    sync();  // the columns are about to be overwritten
  }

 private:
  // Calls f(x, y, columns of x, columns of y, tensors of x, tensors of y, offset) for each pair that exists, with the
  // tensor operands [kFirst, kEnd).
  template <int kFirst, int kEnd, class F>
  UNISONO_DEVICE void for_pairs(const At& at, F&& f) const {
    constexpr int kTensors = larger(1, kEnd - kFirst);
#pragma unroll
    for (int pair = 0; pair < Fragment::kPairs; ++pair) {
      const int m = Fragment::row(thread, pair), n = Fragment::channel(thread, pair), channel = at.first_channel + n;
      if (!at.rows.valid(m) || channel >= geometry.channels) continue;
      const u64 row = u64(at.image) * geometry.rows + at.rows.pixel(m), offset = row * geometry.channels + channel;
      float one[larger(1, kColumns)], two[larger(1, kColumns)], t1[kTensors] = {}, t2[kTensors] = {};
#pragma unroll
      for (int c = 0; c < kColumns; ++c) one[c] = columns()[c * kN + n], two[c] = columns()[c * kN + n + 1];
      load_tensors<kFirst, kEnd>(t1, row, offset, channel);
      load_tensors<kFirst, kEnd>(t2, row, offset + 1, channel + 1);
      f(Fragment::value(acc, pair, 0), Fragment::value(acc, pair, 1), one, two, t1, t2, offset);
    }
  }
  template <int i, int kEnd>
  UNISONO_DEVICE void load_tensors(float* to, u64 row, u64 offset, int channel) const {
    if constexpr (i < kEnd) {
      const auto source = Visitor::template tensor<i>(visitor);
      *to = source.element(tensor_offset(source, offset, row, channel));
      load_tensors<i + 1, kEnd>(to + 1, row, offset, channel);
    }
  }
  static UNISONO_DEVICE void put(void* memory, u64 offset, u32 packed) {
    delay_point();
    *reinterpret_cast<u32*>(static_cast<u16*>(memory) + offset) = packed;
  }

  UNISONO_DEVICE void apply_before(const At& at) {
    for_pairs<0, kTensorsBefore>(
        at, [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2, u64 offset) {
          if constexpr (kSide == SideStore::kBefore)
            put(fixed.side, offset,
                Visitor::Side::pack(Visitor::side(x, one, t1, uniform), Visitor::side(y, two, t2, uniform)));
          x = Visitor::before(x, one, t1, uniform), y = Visitor::before(y, two, t2, uniform);
        });
  }

  // Waits for the image; then columns kMean, kFactor and kShift hold the normalisation.
  UNISONO_DEVICE void load_statistics(const At& at) const {
    float* const column = columns() + kMean * kN;
    const GroupStatistics<Moments, WarpgroupCrew<4>, kN, kScratch, kUnit> statistics(
        norm, {thread, barrier}, reinterpret_cast<Moments*>(moments(0)), epoch, at.image, at.first_channel,
        geometry.channels);
    statistics.gather();
    statistics.emit(
        at.slot == 0,
        [&](int, int n, const MeanAndVariance& of) {
          typename Visitor::Late late;
          if constexpr (sizeof(late) >= 4) {
#pragma unroll
            for (int i = 0; i < kLateWords; ++i) reinterpret_cast<float*>(&late)[i] = column[(1 + i) * kN + n];
          }
          const float2 affine = Visitor::affine(late, uniform, of.mean, of.variance);
          column[n] = of.mean, column[kN + n] = affine.x, column[2 * kN + n] = affine.y;
        },
        [&](int group, const MeanAndVariance& of) {
          if constexpr (Visitor::kStatistics)
            Visitor::statistics(visitor, uniform, at.image, group, of.mean, of.variance);
        });
  }

  UNISONO_DEVICE void store_result(const At& at) {
    auto normalised = [](float x, const float* column) {
      if constexpr (kNormalises)
        return fmaf(x - column[kMean], column[kFactor], column[kShift]);
      else
        return x;
    };
    for_pairs<kTensorsBefore, Visitor::kTensors>(
        at, [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2, u64 offset) {
          const float u = normalised(x, one), v = normalised(y, two);
          put(fixed.output, offset,
              Visitor::Output::pack(Visitor::after(u, x, one + kBefore, t1, uniform),
                                    Visitor::after(v, y, two + kBefore, t2, uniform)));
          if constexpr (kSide == SideStore::kAfter)
            put(fixed.side, offset,
                Visitor::Side::pack(Visitor::side(u, one + kBefore, t1, uniform),
                                    Visitor::side(v, two + kBefore, t2, uniform)));
        });
  }
};

}  // namespace unisono
