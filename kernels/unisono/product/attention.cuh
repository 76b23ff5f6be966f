// Attention: the scores of a tile of queries against one block of keys after another, a softmax whose maximum and sum
// run along, and the product with the values. No score leaves the registers.
#pragma once
#include "unisono/product/attention_queries.cuh"
#include "unisono/ptx/sm90_barrier.cuh"

namespace unisono::product {

constexpr float kLog2e = 1.4426950408889634f;

// The states of a lane's rows l / 4 and l / 4 + 8 of each atom.
template <class Shape>
struct AttentionState {
  float out[Shape::kAtoms][Shape::kValueWidth / 8][4] = {};
  float most[Shape::kAtoms][2], sum[Shape::kAtoms][2] = {};
};

template <class Element>
UNISONO_DEVICE float masked(const AttentionMask& mask, const u16* values, u32 row, u32 key, float scaled) {
  const i64 at = row * mask.values.row + key * mask.values.column;
  // the batch's offset counts elements, of f32 too
  const float value = mask.is_f32 ? __ldg(reinterpret_cast<const float*>(mask.values.memory) +
                                          (values - static_cast<const u16*>(mask.values.memory)) + at)
                                  : widened(Element(), __ldg(values + at));
  if (mask.replaces && value < -1e30f) scaled = 0;
  // the lowest numbers stay numbers: a row of them alone has equal weights
  const float added = value * kLog2e;
  return scaled + (value > -infinity() ? fmaxf(added, -3.402823466e38f) : added);
}

// Scores times scale and log2(e), with masks.
template <class Element, class Shape>
UNISONO_DEVICE void mask(Scores<Shape>& scores, const AttentionParams& p, const u16* const* masks, u32 row,
                         u32 first_key) {
  const u32 column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int atom = 0; atom < Shape::kAtoms; ++atom)
#pragma unroll
    for (int n = 0; n < Shape::kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 key = first_key + 8 * n + column + e % 2, at = row + 16 * atom + e / 2 * 8;
        float& s = scores[atom][n][e];
        s *= p.scale;
#pragma unroll
        for (int m = 0; m < Shape::kMasks; ++m)
          if (at < p.queries && key < p.keys) s = masked<Element>(p.masks[m], masks[m], at, key, s);
      }
}

// Minus infinity for keys that there are not.
template <class Shape>
UNISONO_DEVICE void end_keys(Scores<Shape>& scores, u32 keys) {
  const u32 column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int atom = 0; atom < Shape::kAtoms; ++atom)
#pragma unroll
    for (int n = 0; n < Shape::kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (8 * n + column + e % 2 >= keys) scores[atom][n][e] = -infinity();
}

// Scores times `scale`, which is above 0, to weights, relative to the largest score so far. What there is of sums and
// outputs is made relative to it.
template <class Shape>
UNISONO_DEVICE void weigh(Scores<Shape>& scores, AttentionState<Shape>& state, float scale) {
#pragma unroll
  for (int atom = 0; atom < Shape::kAtoms; ++atom)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = -infinity();
#pragma unroll
      for (int n = 0; n < Shape::kKeys / 8; ++n)
        most = fmaxf(most, fmaxf(scores[atom][n][2 * half], scores[atom][n][2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      most = fmaxf(most * scale, state.most[atom][half]);
      const float base = most == -infinity() ? 0.f : most;  // no key so far: weights of 0
      const float fade = exp2_approx(state.most[atom][half] - base);
      state.most[atom][half] = most;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < Shape::kKeys / 8; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[atom][n][e] = exp2_approx(fmaf(scores[atom][n][e], scale, -base));
          sum += scores[atom][n][e];
        }
      state.sum[atom][half] = state.sum[atom][half] * fade + sum;
#pragma unroll
      for (int n = 0; n < Shape::kValueWidth / 8; ++n)
        state.out[atom][n][2 * half] *= fade, state.out[atom][n][2 * half + 1] *= fade;
    }
}

template <class Element, class Shape>
UNISONO_DEVICE void add_values(AttentionState<Shape>& state, const Scores<Shape>& weights, u32 values) {
  const u32 lane = threadIdx.x % 32;
  const u32 lane_row = values + 2 * ((lane / 8 % 2 * 8 + lane % 8) * tile_pitch(Shape::kValueWidth) + lane / 16 * 8);
#pragma unroll
  for (int k = 0; k < Shape::kKeys / 16; ++k) {
    u32 a[Shape::kAtoms][4];
#pragma unroll
    for (int atom = 0; atom < Shape::kAtoms; ++atom)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const float(&w)[4] = weights[atom][2 * k + part / 2];
        a[atom][part] = Element::pack(w[part % 2 * 2], w[part % 2 * 2 + 1]);
      }
#pragma unroll
    for (int n = 0; n < Shape::kValueWidth / 8; n += 2) {
      u32 b[4];  // columns 0 to 7 by keys 0 to 7, by 8 to 15, and columns 8 to 15
      load_matrices_transposed(lane_row + 2 * (16 * k * tile_pitch(Shape::kValueWidth) + 8 * n), b);
      const u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
      for (int atom = 0; atom < Shape::kAtoms; ++atom) {
        multiply_fragments<Element>(state.out[atom][n], a[atom], low);
        multiply_fragments<Element>(state.out[atom][n + 1], a[atom], high);
      }
    }
  }
}

// `columns`: of the values, from `y` on.
template <class Element, class Shape>
UNISONO_DEVICE void store(const AttentionState<Shape>& state, const AttentionParams& p, u16* y, u32 columns, u32 row) {
  const u32 column = threadIdx.x % 4 * 2;
  const bool words = has_words(p.y, y, columns);
#pragma unroll
  for (int atom = 0; atom < Shape::kAtoms; ++atom)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 at = row + 16 * atom + 8 * half;
      const float sum = sum_over<4>(state.sum[atom][half]);
      const bool hidden = p.keys == 0 || (p.guard == kNanRows && !(sum > 0)) || (p.guard == kUnseeingRows && sum == 0);
      const float share = 1.f / sum;
      if (at >= p.queries) continue;
#pragma unroll
      for (int n = 0; n < Shape::kValueWidth / 8; ++n)
        store_pair<Element>(y + at * p.y.row, p.y.column, 8 * n + column, columns, words,
                            hidden ? 0.f : state.out[atom][n][2 * half] * share,
                            hidden ? 0.f : state.out[atom][n][2 * half + 1] * share);
    }
}

// Begins to load a block of keys, and of `columns` of the values after it, into its stage.
template <class Shape>
UNISONO_DEVICE void load_block(u16* stages, const AttentionParams& p, const u16* k, const u16* v, u32 columns,
                               u32 block) {
  u16* const to = stages + block % 2 * Shape::kStage;
  const u32 first = block * Shape::kKeys;
  load_lines<Shape::kKeys, Shape::kWidth, Shape::kIn>(to, k, p.k.row, p.k.column, first, p.keys, 0, p.width);
  load_lines<Shape::kKeys, Shape::kValueWidth, Shape::kIn>(to + Shape::kKeyTile, v, p.v.row, p.v.column, first, p.keys,
                                                           0, columns);
  copy_async_commit();
}

// Scores and weights of a block that is in its stage, and what they add.
template <class Element, class Shape, class Queries>
UNISONO_DEVICE void attend(AttentionState<Shape>& state, const Queries& q, const AttentionParams& p,
                           const u16* const* masks, u32 row, u32 block, u32 keys) {
  Scores<Shape> scores;
  q.template score<Element>(scores, keys);
  const u32 first = block * Shape::kKeys;
  if constexpr (Shape::kMasks > 0) mask<Element, Shape>(scores, p, masks, row, first);
  if (first + Shape::kKeys > p.keys) end_keys<Shape>(scores, p.keys - first);
  weigh<Shape>(scores, state, Shape::kMasks > 0 ? 1.f : p.scale);
  add_values<Element, Shape>(state, scores, keys + 2 * Shape::kKeyTile);
}

// One tile of queries, and one part of the values' columns. Two stages: the next block of keys and values is under way
// while this one is used.
template <class Element, class Shape>
UNISONO_DEVICE void attention(const AttentionParams& p) {
  UNISONO_DYNAMIC_SHARED(shared);
  u16* const stages = reinterpret_cast<u16*>(shared);
  const u32 batch = blockIdx.x / p.query_tiles / Shape::kParts;
  const u32 part = blockIdx.x / p.query_tiles % Shape::kParts * Shape::kValueWidth;  // its first column
  const u32 left = p.value_width - part, columns = left < Shape::kValueWidth ? left : Shape::kValueWidth;
  const u32 row =
      blockIdx.x % p.query_tiles * Shape::kQueries + threadIdx.x / 32 * 16 * Shape::kAtoms + threadIdx.x % 32 / 4;
  const u16* const k = matrix_of(p.k, p.batches, batch);
  const u16* const v = matrix_of(p.v, p.batches, batch) + part * p.v.column;
  const u16* masks[kAttentionMasks];
  for (int m = 0; m < Shape::kMasks; ++m) masks[m] = matrix_of(p.masks[m].values, p.batches, batch);
  const u32 blocks = (p.keys + Shape::kKeys - 1) / Shape::kKeys;
  typename QueriesOf<Shape, Shape::kSharedQueries>::type q;
  if constexpr (Shape::kSharedQueries)
    q.load(stages + 2 * Shape::kStage, p, matrix_of(p.q, p.batches, batch),
           blockIdx.x % p.query_tiles * Shape::kQueries);
  if (blocks > 0) load_block<Shape>(stages, p, k, v, columns, 0);
  if constexpr (!Shape::kSharedQueries) q.load(p, matrix_of(p.q, p.batches, batch), row);
  AttentionState<Shape> state;
#pragma unroll
  for (int atom = 0; atom < Shape::kAtoms; ++atom) state.most[atom][0] = state.most[atom][1] = -infinity();
  for (u32 block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      load_block<Shape>(stages, p, k, v, columns, block + 1);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    attend<Element, Shape>(state, q, p, masks, row, block, shared_address(stages + block % 2 * Shape::kStage));
    __syncthreads();  // the stage is free
  }
  store<Element, Shape>(state, p, const_cast<u16*>(matrix_of(p.y, p.batches, batch)) + part * p.y.column, columns, row);
}

}  // namespace unisono::product
