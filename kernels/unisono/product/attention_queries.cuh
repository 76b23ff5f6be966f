// The queries of attention: in registers or in shared memory, and their scores against a block of keys.
#pragma once
#include "unisono/mma/fragments.cuh"
#include "unisono/product/matrices.cuh"

namespace unisono::product {

// kWidth: of a head; kValueWidth: columns of the values that a CTA has, one of kParts of a head. Both are multiples of
// 16. kAtoms: runs of 16 queries that a warp has. kKeys: of a block.
template <int kWidthOf, int kValueWidthOf, int kPartsOf, int kAtomsOf, int kKeysOf, int kMasksOf, Lines kInOf>
struct AttentionShape {
  static constexpr int kWidth = kWidthOf, kValueWidth = kValueWidthOf, kParts = kPartsOf, kAtoms = kAtomsOf,
                       kKeys = kKeysOf, kMasks = kMasksOf;
  static constexpr Lines kIn = kInOf;
  static constexpr int kQueries = 16 * kAtoms * kWarps;  // of a tile
  static constexpr int kKeyTile = kKeys * tile_pitch(kWidth), kValueTile = kKeys * tile_pitch(kValueWidth);
  static constexpr int kStage = kKeyTile + kValueTile;  // elements
  static constexpr bool kSharedQueries = kWidth > 256;  // which leave no registers for sums
};

// What a lane has: rows l / 4 and l / 4 + 8 of each atom.
template <class Shape>
using Scores = float[Shape::kAtoms][Shape::kKeys / 8][4];

// (kQueries, kWidth) as operands of the tensor cores.
template <class Shape>
struct QueryFragments {
  u32 of[Shape::kAtoms][Shape::kWidth / 16][4];

  UNISONO_DEVICE void load(const AttentionParams& p, const u16* q, u32 row) {
    const u32 column = threadIdx.x % 4 * 2;
    const bool words = has_words(p.q, q, p.width);
#pragma unroll
    for (int atom = 0; atom < Shape::kAtoms; ++atom)
#pragma unroll
      for (int part = 0; part < 4; ++part) {  // rows l / 4, then + 8; columns, then + 8
        const u32 at = row + 16 * atom + part % 2 * 8;
        const u16* const line = q + at * p.q.row;
#pragma unroll
        for (int k = 0; k < Shape::kWidth / 16; ++k) {
          const u32 c = 16 * k + part / 2 * 8 + column;
          u32& pair = of[atom][k][part];
          pair = 0;
          if (at >= p.queries || c >= p.width) continue;
          pair = words ? __ldg(reinterpret_cast<const u32*>(line + c)) : load_pair(line, p.q.column, c, p.width);
        }
      }
  }

  // Scores against the kKeys keys at address `keys` of shared memory.
  template <class Element>
  UNISONO_DEVICE void score(Scores<Shape>& scores, u32 keys) const {
    const u32 lane = threadIdx.x % 32;
    const u32 lane_row = keys + 2 * ((lane / 16 * 8 + lane % 8) * tile_pitch(Shape::kWidth) + lane / 8 % 2 * 8);
#pragma unroll
    for (int n = 0; n < Shape::kKeys / 8; n += 2) {
#pragma unroll
      for (int atom = 0; atom < Shape::kAtoms; ++atom)
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[atom][n][e] = scores[atom][n + 1][e] = 0;
#pragma unroll
      for (int k = 0; k < Shape::kWidth / 16; ++k) {
        u32 b[4];  // keys 0 to 7 by columns 0 to 7, by 8 to 15, and keys 8 to 15
        load_matrices(lane_row + 2 * (8 * n * tile_pitch(Shape::kWidth) + 16 * k), b);
        const u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
        for (int atom = 0; atom < Shape::kAtoms; ++atom) {
          multiply_fragments<Element>(scores[atom][n], of[atom][k], low);
          multiply_fragments<Element>(scores[atom][n + 1], of[atom][k], high);
        }
      }
    }
  }
};

// The same of wider heads: they stay in shared memory, and are operands when their columns' turn comes.
template <class Shape>
struct SharedQueries {
  static_assert(Shape::kAtoms == 1, "a warp has 16 of the queries");
  u32 row;  // a lane's of the four matrices: rows 0 to 7 and 8 to 15 of columns 0 to 7, then of 8 to 15

  // Under way until copy_async_wait().
  UNISONO_DEVICE void load(u16* to, const AttentionParams& p, const u16* q, u32 first) {
    load_lines<Shape::kQueries, Shape::kWidth, Shape::kIn>(to, q, p.q.row, p.q.column, first, p.queries, 0, p.width);
    const u32 lane = threadIdx.x % 32;
    row = shared_address(to) +
          2 * ((threadIdx.x / 32 * 16 + lane / 8 % 2 * 8 + lane % 8) * tile_pitch(Shape::kWidth) + lane / 16 * 8);
  }

  template <class Element>
  UNISONO_DEVICE void score(Scores<Shape>& scores, u32 keys) const {
    const u32 lane = threadIdx.x % 32;
    const u32 lane_row = keys + 2 * ((lane / 16 * 8 + lane % 8) * tile_pitch(Shape::kWidth) + lane / 8 % 2 * 8);
#pragma unroll
    for (int n = 0; n < Shape::kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[0][n][e] = 0;
#pragma unroll 4
    for (int k = 0; k < Shape::kWidth / 16; ++k) {
      u32 a[4];
      load_matrices(row + 2 * 16 * k, a);
#pragma unroll
      for (int n = 0; n < Shape::kKeys / 8; n += 2) {
        u32 b[4];
        load_matrices(lane_row + 2 * (8 * n * tile_pitch(Shape::kWidth) + 16 * k), b);
        const u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
        multiply_fragments<Element>(scores[0][n], a, low);
        multiply_fragments<Element>(scores[0][n + 1], a, high);
      }
    }
  }
};

template <class Shape, bool kShared>
struct QueriesOf {
  using type = QueryFragments<Shape>;
};
template <class Shape>
struct QueriesOf<Shape, true> {
  using type = SharedQueries<Shape>;
};

}  // namespace unisono::product
