// The epilogue of a depthwise convolution, a pixel's vector of channels at a time.
#pragma once
#include "unisono/epilogue/packed_pairs.cuh"
#include "unisono/epilogue/vectors.cuh"
#include "unisono/sm90/depthwise_kernel.cuh"

namespace unisono {

template <class Config, class Visitor>
template <int i>
UNISONO_DEVICE void Depthwise<Config, Visitor>::load_tensor(const Where& at, bool exists, Tensors& tensors) const {
  const auto source = Visitor::template tensor<i>(params.visitor);
  constexpr int kEach = decltype(source)::kElementBytes;
  using Each = Bundle<kVector * kEach>;
  const Each all = exists ? Each::load(static_cast<const u8*>(source.memory) + offset(at) * kEach) : Each{};
#pragma unroll
  for (int v = 0; v < kVector / 2; ++v) {
    const float2 pair = source.pair_of(all.word, v);
    tensors[2 * v][i] = pair.x, tensors[2 * v + 1][i] = pair.y;
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::finish(Plain, const Where& at, const Target& target,
                                                       const float (&sum)[kVector], const Columns& columns,
                                                       const Uniform& uniform) const {
  Tensors tensors;
  load_tensors(at, target.exists, tensors);
  StoredPairs<Visitor, kVector / 2, Visitor::kSide != SideStore::kNone> packed;
#pragma unroll
  for (int v = 0; v < kVector; v += 2)
    packed.put(v / 2, PlainElements<Visitor>{uniform}, sum[v], sum[v + 1], columns[v], columns[v + 1], tensors[v],
               tensors[v + 1], 0);
  if (target.exists) store(at, target, packed);
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::finish(General, const Where& at, const Target& target,
                                                       const float (&sum)[kVector], const Columns& columns,
                                                       const Uniform& uniform) const {
  static_assert(Visitor::kLevels == 0 && Visitor::kDomains == 0, "reductions take the kernels with tiles");
  if (!target.exists) return;
  Tensors tensors;
  load_tensors(at, true, tensors);
  const typename Visitor::Row row = Visitor::row(params.visitor, uniform, at);
  float none[kVector][1];
  if (channel == 0) Visitor::close_row(params.visitor, uniform, at, row, none[0]);
  typename Visitor::Row rows[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) rows[v] = row;
  typename Visitor::Result results[kVector];
  RowElements<Visitor>::compute(
      sum, columns, tensors, uniform, rows, at, channel, 0, kVector, [](int) { return true; }, results, none);
  TiledPairs<Visitor, kVector / 2> packed;
#pragma unroll
  for (int v = 0; v < kVector; v += 2) {
    packed.put(v / 2, results[v], results[v + 1]);
    Visitor::put(params.visitor, offset(at) + v, results[v], results[v + 1]);
  }
  packed.to([&](const auto& pairs) { store(at, target, pairs); });
}

}  // namespace unisono
