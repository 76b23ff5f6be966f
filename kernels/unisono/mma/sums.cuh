// A thread's sums in memory, as they lie in its registers: quadruples of each block, of which 128 threads have one each
// side by side.
#pragma once
#include "unisono/ptx/global.cuh"

namespace unisono {

template <int kQuads, int kBlocks, int kCount>
UNISONO_DEVICE void store_sums(float4* to, const float (&acc)[kBlocks][kCount]) {
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int i = 0; i < kQuads; ++i)
      to[(b * kQuads + i) * 128] = {acc[b][4 * i], acc[b][4 * i + 1], acc[b][4 * i + 2], acc[b][4 * i + 3]};
}

// each(sums, quadruple): four of them, and what memory has in their place. kBatch loads are in flight.
template <int kQuads, int kBatch, int kBlocks, int kCount, class Each>
UNISONO_DEVICE void for_sums(const float4* from, float (&acc)[kBlocks][kCount], const Each& each) {
  static_assert(kQuads % kBatch == 0, "quadruples move in whole batches");
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int base = 0; base < kQuads; base += kBatch) {
      float4 values[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) values[i] = load_l2(from + (b * kQuads + base + i) * 128);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) each(acc[b] + 4 * (base + i), values[i]);
    }
}
template <int kQuads, int kBlocks, int kCount>
UNISONO_DEVICE void load_sums(const float4* from, float (&acc)[kBlocks][kCount]) {
  constexpr int kBatch = kQuads % 8 == 0 ? 8 : kQuads % 4 == 0 ? 4 : kQuads % 2 == 0 ? 2 : 1;
  for_sums<kQuads, kBatch>(from, acc, [](float* to, const float4& value) {
    to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
  });
}

}  // namespace unisono
