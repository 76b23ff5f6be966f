// The epilogue of plain/conv.cuh, an element at a time.
#pragma once
#include "unisono/plain/conv_kernel.cuh"

namespace unisono {

template <class Config, class Visitor>
struct PlainConv<Config, Visitor>::Columns {
  int image = -1, channel = -1;  // whose values these are
  float before[larger(1, Visitor::kColumnsBefore)], after[larger(1, Visitor::kColumnsAfter)];

  UNISONO_DEVICE bool are_of(const Row& at, int of) const { return image == at.image && channel == of; }
  UNISONO_DEVICE void move(const PlainConv& conv, const Row& at, int to) {
    if (are_of(at, to)) return;
    image = at.image, channel = to;
    if constexpr (Config::kNormalises) Visitor::columns_before(conv.params.visitor, conv.uniform, image, to, before);
    Visitor::columns_after(conv.params.visitor, conv.uniform, image, to, after);
  }
};

// Every element of the tile; neighbouring threads have neighbours of the output.
template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::finish(const Tile& tile) const {
  const PlainConvGeometry& g = geometry();
  Columns columns;
  for (int index = int(threadIdx.x); index < kTileM * kTileN; index += kThreads) {
    const int down = Config::kPlanes ? index % kTileM : index / kTileN,
              across = Config::kPlanes ? index / kTileM : index % kTileN;
    const int row = tile.row + down, output = tile.output + across;
    if (row >= g.range_rows || output >= g.group_outputs) continue;
    const float* const sum = shared + down * kPitchSums + across;
    finish_sum({sum[0], kProducts > 1 ? sum[kTileM * kPitchSums] : 0.f}, Row(g, tile.range * g.range_rows + row),
               tile.group * g.group_outputs + output, columns);
  }
}

// Before a normalisation: its input waits in memory until the statistics are known.
template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::finish_sum(const Sums& sum, const Row& at, int channel,
                                                           Columns& columns) const {
  columns.move(*this, at, channel);
  if constexpr (Config::kGeneral) {
    finish_general(sum, at, channel, columns);
  } else if constexpr (!Config::kNormalises) {
    finish_plain(sum, at, channel, 0.f, columns);
  } else {
    float tensor[larger(1, Visitor::kTensorsBefore + kProducts - 1)];
    load_tensors<0, Visitor::kTensorsBefore>(at, channel, tensor);
    sum.template put_second<Visitor::kTensorsBefore>(tensor);
    norm().values[u64(at.m) * geometry().channels + channel] =
        Visitor::before(sum.first, columns.before, tensor, uniform);
    if constexpr (Visitor::kSide == SideStore::kBefore)
      store_element<typename Visitor::Side>(params.fixed.side, offset(at, channel),
                                            Visitor::side(sum.first, columns.before, tensor, uniform));
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::finish_plain(const Sums& x, const Row& at, int channel, float raw,
                                                             const Columns& columns) const {
  constexpr int kBefore = Visitor::kTensorsBefore, kAll = Visitor::kTensors;
  float tensor[larger(1, kAll - kBefore + kProducts - 1)];
  load_tensors<kBefore, kAll>(at, channel, tensor);
  x.template put_second<kAll - kBefore>(tensor);
  store_element<typename Visitor::Output>(params.fixed.main, main_offset(at, channel),
                                          Visitor::after(x.first, raw, columns.after, tensor, uniform));
  if constexpr (Visitor::kSide == SideStore::kAfter)
    store_element<typename Visitor::Side>(params.fixed.side, offset(at, channel),
                                          Visitor::side(x.first, columns.after, tensor, uniform));
}

// Values of rows, coordinates, effects, and results of any type and number.
template <class Config, class Visitor>
UNISONO_DEVICE void PlainConv<Config, Visitor>::finish_general(const Sums& sum, const Row& at, int channel,
                                                               const Columns& columns) const {
  static_assert(Visitor::kLevels == 0 && Visitor::kDomains == 0, "nothing is reduced");
  float tensor[larger(1, Visitor::kTensors + kProducts - 1)], none[1];
  const Where where = at.where();
  const typename Visitor::Row row = Visitor::row(params.visitor, uniform, where);
  if constexpr (Visitor::kRowEnds) {
    if (channel == 0) Visitor::close_row(params.visitor, uniform, where, row, none);
  }
  if constexpr (Visitor::kElements) {
    load_tensors<0, Visitor::kTensors>(at, channel, tensor);
    sum.template put_second<Visitor::kTensors>(tensor);
    const auto result = Visitor::element(sum.first, columns.after, tensor, uniform, row, where, channel, true, none);
    if constexpr (Visitor::kTiled > 0)
      store_element<typename Visitor::Output>(params.fixed.main, main_offset(at, channel), Visitor::tiled(result, 0));
    if constexpr (Visitor::kTiled > 1)
      store_element<typename Visitor::Side>(params.fixed.side, offset(at, channel), Visitor::tiled(result, 1));
    Visitor::put(params.visitor, offset(at, channel), result);
  }
}

}  // namespace unisono
