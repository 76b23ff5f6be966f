// The epilogue of a depthwise convolution, a pixel's vector of channels at a time.
#pragma once
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
    float2 pair;
    if constexpr (kEach == 4)
      pair = {__uint_as_float(all.word[2 * v]), __uint_as_float(all.word[2 * v + 1])};
    else if constexpr (kEach == 2)
      pair = source.unpack(all.word[v]);
    else
      pair = source.unpack(all.word[v / 2] >> 16 * (v % 2));
    tensors[2 * v][i] = pair.x, tensors[2 * v + 1][i] = pair.y;
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::finish_plain(const Where& at, const Target& target,
                                                             const float (&sum)[kVector], const Columns& columns,
                                                             const Uniform& uniform) const {
  Tensors tensors;
  load_tensors(at, target.exists, tensors);
  Packed packed, beside;
#pragma unroll
  for (int v = 0; v < kVector; v += 2) {
    packed.word[v / 2] =
        Visitor::Output::pack(Visitor::after(sum[v], 0.f, columns[v], tensors[v], uniform),
                              Visitor::after(sum[v + 1], 0.f, columns[v + 1], tensors[v + 1], uniform));
    if constexpr (Visitor::kSide != SideStore::kNone)
      beside.word[v / 2] = Visitor::Side::pack(Visitor::side(sum[v], columns[v], tensors[v], uniform),
                                               Visitor::side(sum[v + 1], columns[v + 1], tensors[v + 1], uniform));
  }
  if (!target.exists) return;
  packed.store(target.memory);
  if constexpr (Visitor::kSide != SideStore::kNone) store_side(at, beside);
}

template <class Config, class Visitor>
UNISONO_DEVICE void Depthwise<Config, Visitor>::finish_general(const Where& at, const Target& target,
                                                               const float (&sum)[kVector], const Columns& columns,
                                                               const Uniform& uniform) const {
  static_assert(!Config::kGeneral || general_fits(), "reductions take the kernels with tiles");
  float none[1];
  Tensors tensors;
  load_tensors(at, true, tensors);
  const typename Visitor::Row row = Visitor::row(params.visitor, uniform, at);
  if constexpr (Visitor::kRowEnds) {
    if (channel == 0) Visitor::close_row(params.visitor, uniform, at, row, none);
  }
  if constexpr (Visitor::kElements) {
    Packed packed, beside;
    typename Visitor::Result results[FormsOf<Visitor>::kAny ? kVector : 1];
    if constexpr (FormsOf<Visitor>::kAny)
      elements_of_row<Visitor>(sum, columns, tensors, uniform, row, at, channel, 0, kVector, results);
    const auto result = [&](int v) {
      if constexpr (FormsOf<Visitor>::kAny)
        return results[v];
      else
        return Visitor::element(sum[v], columns[v], tensors[v], uniform, row, at, channel + v, true, none);
    };
#pragma unroll
    for (int v = 0; v < kVector; v += 2) {
      const auto left = result(v), right = result(v + 1);
      if constexpr (Visitor::kTiled > 0)
        packed.word[v / 2] = Visitor::Output::pack(Visitor::tiled(left, 0), Visitor::tiled(right, 0));
      if constexpr (Visitor::kTiled > 1)
        beside.word[v / 2] = Visitor::Side::pack(Visitor::tiled(left, 1), Visitor::tiled(right, 1));
      Visitor::put(params.visitor, offset(at) + v, left, right);
    }
    if constexpr (Visitor::kTiled > 0) packed.store(target.memory);
    if constexpr (Visitor::kTiled > 1) store_side(at, beside);
  }
}

}  // namespace unisono
