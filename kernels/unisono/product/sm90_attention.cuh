// Attention by warpgroup matrix instructions. The last warpgroup loads tiles by TMA, each other has 64 queries. The
// scores of the next block of keys are computed by the tensor cores while weights of this one are; they and the weights
// stay in registers.
#pragma once
#include "unisono/mma/sm90_wgmma_of_fragments.cuh"
#include "unisono/product/matrices.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/ptx/sm90_tma.cuh"

namespace unisono::product {

// kWidth: of a head, a multiple of 16; kValueWidth: a multiple of 8. kGroups: warpgroups with queries. kKeys: of a
// block. kRegisters: of a thread of theirs; kLoadRegisters: of one that loads. In shared memory a tile is boxes of 64
// columns, 128 bytes swizzled.
template <int kWidthOf, int kValueWidthOf, int kGroupsOf, int kKeysOf, int kStagesOf, int kRegistersOf,
          int kLoadRegistersOf>
struct Sm90AttentionShape {
  static constexpr int kWidth = kWidthOf, kValueWidth = kValueWidthOf, kGroups = kGroupsOf, kKeys = kKeysOf,
                       kStages = kStagesOf, kRegisters = kRegistersOf, kLoadRegisters = kLoadRegistersOf;
  static constexpr int kQueries = 64 * kGroups, kConsumers = 128 * kGroups;
  static constexpr int kBoxes = (kWidth + 63) / 64, kValueBoxes = (kValueWidth + 63) / 64;
  static constexpr int kQueryBox = 128 * kQueries, kKeyBox = 128 * kKeys;  // bytes
  static constexpr int kQueryBytes = kBoxes * kQueryBox, kKeyBytes = kBoxes * kKeyBox,
                       kValueBytes = kValueBoxes * kKeyBox;
  static constexpr int kStageBytes = kKeyBytes + kValueBytes;
};

// Addresses in shared memory. Of every stage the keys and the values have a barrier that says when they are there, and
// one that says when they have been read.
template <class Shape>
struct Sm90AttentionMemory {
  u32 queries;

  static UNISONO_DEVICE Sm90AttentionMemory in(const u8* shared) { return {(shared_address(shared) + 1023) & ~1023u}; }
  UNISONO_DEVICE u32 keys(u32 stage) const { return queries + Shape::kQueryBytes + stage * Shape::kStageBytes; }
  UNISONO_DEVICE u32 values(u32 stage) const { return keys(stage) + Shape::kKeyBytes; }
  UNISONO_DEVICE u32 full_queries() const { return keys(Shape::kStages); }
  UNISONO_DEVICE u32 barrier(int kind, u32 stage) const {
    return full_queries() + 8 * (1 + kind * Shape::kStages + stage);
  }
  UNISONO_DEVICE u32 full_keys(u32 stage) const { return barrier(0, stage); }
  UNISONO_DEVICE u32 full_values(u32 stage) const { return barrier(1, stage); }
  UNISONO_DEVICE u32 empty_keys(u32 stage) const { return barrier(2, stage); }
  UNISONO_DEVICE u32 empty_values(u32 stage) const { return barrier(3, stage); }

  UNISONO_DEVICE void init() const {
    mbarrier_init(full_queries(), 1);
    for (u32 stage = 0; stage < Shape::kStages; ++stage) {
      mbarrier_init(full_keys(stage), 1), mbarrier_init(full_values(stage), 1);
      mbarrier_init(empty_keys(stage), 4 * Shape::kGroups), mbarrier_init(empty_values(stage), 4 * Shape::kGroups);
    }
    mbarrier_init_fence();
  }
};

// Boxes of a tile side by side, by one thread.
template <int kBoxes, int kBoxBytes>
UNISONO_DEVICE void load_tile(u32 to, const TensorMap& map, u32 barrier, u32 row, u32 inner, u32 outer) {
  mbarrier_arrive_expect(barrier, kBoxes * kBoxBytes);
#pragma unroll
  for (int box = 0; box < kBoxes; ++box) tma_load_4d(to + box * kBoxBytes, map, barrier, 64 * box, row, inner, outer);
}

template <class Shape>
UNISONO_DEVICE void load_attention(const Sm90AttentionParams& p, const Sm90AttentionMemory<Shape>& m, u32 blocks) {
  const u32 tile = blockIdx.x % p.query_tiles, batch = blockIdx.x / p.query_tiles;
  const u32 inner = batch % p.inner, outer = batch / p.inner;
  load_tile<Shape::kBoxes, Shape::kQueryBox>(m.queries, p.maps[0], m.full_queries(), tile * Shape::kQueries,
                                             inner * p.inner_step[0], outer * p.outer_step[0]);
  for (u32 block = 0; block < blocks; ++block) {
    const u32 stage = block % Shape::kStages, parity = block / Shape::kStages % 2 ^ 1;
    mbarrier_wait(m.empty_keys(stage), parity);
    load_tile<Shape::kBoxes, Shape::kKeyBox>(m.keys(stage), p.maps[1], m.full_keys(stage), block * Shape::kKeys,
                                             inner * p.inner_step[1], outer * p.outer_step[1]);
    mbarrier_wait(m.empty_values(stage), parity);
    load_tile<Shape::kValueBoxes, Shape::kKeyBox>(m.values(stage), p.maps[2], m.full_values(stage),
                                                  block * Shape::kKeys, inner * p.inner_step[2],
                                                  outer * p.outer_step[2]);
  }
}

// What a warpgroup holds of its 64 queries: a thread has rows 16 * (t / 32) + (t % 32) / 4 (+ 8).
template <class Element, class Shape>
struct Sm90Attention {
  float scores[Shape::kKeys / 2];
  u32 weights[Shape::kKeys / 16][4];
  float out[Shape::kValueWidth / 2];
  float most[2], sum[2] = {};

  // Begins scores = queries keys^T.
  UNISONO_DEVICE void score(u32 queries, u32 keys) {
    const u64 a = operand_descriptor<128>(queries), b = operand_descriptor<128>(keys);
#pragma unroll
    for (int k = 0; k < Shape::kWidth / 16; ++k)
      wgmma<Element, Shape::kKeys>(scores, a + ((k / 4 * Shape::kQueryBox + k % 4 * 32) >> 4),
                                   b + ((k / 4 * Shape::kKeyBox + k % 4 * 32) >> 4), k);
    wgmma_commit();
  }

  // Begins out += weights values.
  UNISONO_DEVICE void add_values(u32 values, u32 accumulate) {
    const u64 b = columns_descriptor<Shape::kKeyBox>(values);
#pragma unroll
    for (int k = 0; k < Shape::kKeys / 16; ++k)
      wgmma_of_fragments<Element, Shape::kValueWidth, true>(out, weights[k], b + (k * 2048 >> 4), accumulate | k);
    wgmma_commit();
  }

  // Minus infinity for keys from `keys` of this block on.
  UNISONO_DEVICE void end_keys(u32 keys) {
    const u32 column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < Shape::kKeys / 2; ++i)
      if (i / 4 * 8 + column + i % 2 >= keys) scores[i] = -infinity();
  }

  // Scores times `scale`, which is above 0, to weights relative to the largest so far, in f32; of each half of the rows
  // what earlier sums are multiplied by.
  UNISONO_DEVICE void weigh(float scale, float (&fade)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = scores[2 * half];
#pragma unroll
      for (int j = 0; j < Shape::kKeys / 8; ++j)
        largest = fmaxf(largest, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      largest = fmaxf(largest * scale, most[half]);
      const float base = largest == -infinity() ? 0.f : largest;  // no score above it so far: weights of 0
      fade[half] = exp2_approx(most[half] - base);
      most[half] = largest;
      float added[2] = {};
#pragma unroll
      for (int j = 0; j < Shape::kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& s = scores[4 * j + 2 * half + e];
          s = exp2_approx(fmaf(s, scale, -base));
          added[e] += s;
        }
      sum[half] = fmaf(sum[half], fade[half], added[0] + added[1]);
    }
  }

  UNISONO_DEVICE void fade_out(const float (&fade)[2]) {
#pragma unroll
    for (int i = 0; i < Shape::kValueWidth / 2; ++i) out[i] *= fade[i / 2 % 2];
  }

  UNISONO_DEVICE void pack() {
#pragma unroll
    for (int k = 0; k < Shape::kKeys / 16; ++k)
#pragma unroll
      for (int part = 0; part < 4; ++part)  // rows, then + 8; keys, then + 8
        weights[k][part] = Element::pack(scores[4 * (2 * k + part / 2) + part % 2 * 2],
                                         scores[4 * (2 * k + part / 2) + part % 2 * 2 + 1]);
  }

  UNISONO_DEVICE void store(const Sm90AttentionParams& p, u16* y, u32 row) const {
    const bool words = has_words(p.y, y, p.value_width);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 at = row + 8 * half;
      float all = sum[half];
      all += __shfl_xor_sync(~0u, all, 1);
      all += __shfl_xor_sync(~0u, all, 2);
      const float share = 1.f / all;
      const bool hidden = (p.guard == kNanRows && !(all > 0)) || (p.guard == kUnseeingRows && all == 0);
      if (at >= p.queries) continue;
#pragma unroll
      for (int n = 0; n < Shape::kValueWidth / 8; ++n)
        store_pair<Element>(y + at * p.y.row, p.y.column, 8 * n + threadIdx.x % 4 * 2, p.value_width, words,
                            hidden ? 0.f : out[4 * n + 2 * half] * share,
                            hidden ? 0.f : out[4 * n + 2 * half + 1] * share);
    }
  }
};

// By each warp, whose instructions have read the stage.
UNISONO_DEVICE void release_stage(u32 barrier) {
  if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}

// The weights of the first block of keys.
template <class Element, class Shape>
UNISONO_DEVICE void begin_attention(Sm90Attention<Element, Shape>& a, const Sm90AttentionParams& p,
                                    const Sm90AttentionMemory<Shape>& m, u32 queries) {
  float fade[2];
  a.most[0] = a.most[1] = -infinity();
  mbarrier_wait(m.full_queries(), 0);
  mbarrier_wait(m.full_keys(0), 0);
  wgmma_fence();
  a.score(queries, m.keys(0));
  wgmma_wait<0>();
  wgmma_hold(a.scores);
  release_stage(m.empty_keys(0));
  if (p.keys < Shape::kKeys) a.end_keys(p.keys);
  a.weigh(p.scale, fade);
  a.pack();
}

// A warpgroup's part: the product with the values of a block runs at the same time as that with the keys of the next.
template <class Element, class Shape>
UNISONO_DEVICE void attend(const Sm90AttentionParams& p, const Sm90AttentionMemory<Shape>& m, u32 blocks) {
  Sm90Attention<Element, Shape> a;
  const u32 queries = m.queries + threadIdx.x / 128 * 64 * 128;
  float fade[2];
  begin_attention(a, p, m, queries);
  for (u32 block = 1; block < blocks; ++block) {
    const u32 stage = block % Shape::kStages, before = (block - 1) % Shape::kStages;
    mbarrier_wait(m.full_keys(stage), block / Shape::kStages % 2);
    wgmma_fence();
    a.score(queries, m.keys(stage));
    mbarrier_wait(m.full_values(before), (block - 1) / Shape::kStages % 2);
    wgmma_fence();
    a.add_values(m.values(before), block > 1);
    wgmma_wait<1>();
    wgmma_hold(a.scores);
    release_stage(m.empty_keys(stage));
    if ((block + 1) * Shape::kKeys > p.keys) a.end_keys(p.keys - block * Shape::kKeys);
    a.weigh(p.scale, fade);
    wgmma_wait<0>();
    wgmma_hold(a.out);
    release_stage(m.empty_values(before));
    a.fade_out(fade);
    a.pack();
  }
  const u32 last = (blocks - 1) % Shape::kStages;
  mbarrier_wait(m.full_values(last), (blocks - 1) / Shape::kStages % 2);
  wgmma_fence();
  a.add_values(m.values(last), blocks > 1);
  wgmma_wait<0>();
  wgmma_hold(a.out);
  const u32 row = blockIdx.x % p.query_tiles * Shape::kQueries + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  a.store(p, const_cast<u16*>(matrix_of(p.y, p.batches, blockIdx.x / p.query_tiles)), row);
}

// One tile of queries; at least one key.
template <class Element, class Shape>
UNISONO_DEVICE void sm90_attention(const Sm90AttentionParams& p) {
  UNISONO_DYNAMIC_SHARED(shared);
  const auto m = Sm90AttentionMemory<Shape>::in(shared);
  if (threadIdx.x == 0) m.init();
  __syncthreads();
  const u32 blocks = (p.keys + Shape::kKeys - 1) / Shape::kKeys;
  if (threadIdx.x >= Shape::kConsumers) {
    register_release<Shape::kLoadRegisters>();
    if (threadIdx.x == Shape::kConsumers) load_attention<Shape>(p, m, blocks);
  } else {
    register_acquire<Shape::kRegisters>();
    attend<Element, Shape>(p, m, blocks);
  }
}

}  // namespace unisono::product
