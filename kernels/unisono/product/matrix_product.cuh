// Products of two batches of matrices, a tile of 64 x 64 a CTA.
#pragma once
#include "unisono/mma/fragments.cuh"
#include "unisono/product/matrices.cuh"
#include "unisono/ptx/sm90_barrier.cuh"

namespace unisono::product {

constexpr int kTile = 64, kDepth = 32;

// An operand's tile in shared memory. Along: its lines run along the depth; else along the rows of a, or the columns of
// b. kIn: whether they lie together in memory.
template <bool kAlongOf, Lines kInOf>
struct OperandShape {
  static constexpr bool kAlong = kAlongOf;
  static constexpr Lines kIn = kInOf;
  static constexpr int kPitch = tile_pitch(kAlong ? kDepth : kTile);
  static constexpr int kElements = (kAlong ? kTile : kDepth) * kPitch;
};

// `line`: from one of the 64 to the next; `step`: along the depth.
template <class Operand>
UNISONO_DEVICE void load_operand(u16* to, const u16* from, i64 line, i64 step, u32 first, u32 lines, u32 begin,
                                 u32 depth) {
  if constexpr (Operand::kAlong)
    load_lines<kTile, kDepth, Operand::kIn>(to, from, line, step, first, lines, begin, depth);
  else
    load_lines<kDepth, kTile, Operand::kIn>(to, from, step, line, begin, depth, first, lines);
}

// 16 of its 64 lines by 16 of the depth: the matrices (0 to 7, 0 to 7), (8 to 15, 0 to 7), (0 to 7, 8 to 15), (8 to 15,
// 8 to 15).
template <class Operand>
UNISONO_DEVICE void load_fragment(u32 tile, int line, int k, u32 (&four)[4]) {
  const u32 lane = threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
  if constexpr (Operand::kAlong)
    load_matrices(tile + 2 * ((line + low + lane % 8) * Operand::kPitch + k + high), four);
  else
    load_matrices_transposed(tile + 2 * ((k + high + lane % 8) * Operand::kPitch + line + low), four);
}

// Two by two warps, each with 32 x 32.
template <class Element, class A, class B>
UNISONO_DEVICE void multiply_tiles(float (&sums)[2][4][4], u32 a, u32 b, u32 row, u32 column) {
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    u32 left[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) load_fragment<A>(a, int(row) + 16 * i, k, left[i]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u32 right[4];
      load_fragment<B>(b, int(column) + 16 * j, k, right);
      const u32 low[2] = {right[0], right[2]}, high[2] = {right[1], right[3]};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        multiply_fragments<Element>(sums[i][2 * j], left[i], low);
        multiply_fragments<Element>(sums[i][2 * j + 1], left[i], high);
      }
    }
  }
}

// Stores a warp's sums, those of rows and columns from `row` and `column` on.
template <class Element>
UNISONO_DEVICE void store_sums(const MatrixProductParams& p, u32 batch, const float (&sums)[2][4][4], u32 row,
                               u32 column) {
  u16* const c = const_cast<u16*>(matrix_of(p.c, p.batches, batch));
  const u32 lane = threadIdx.x % 32;
  const bool words = has_words(p.c, c, p.columns);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 at = row + 16 * i + 8 * half + lane / 4;
      if (at >= p.rows) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        store_pair<Element>(c + at * p.c.row, p.c.column, column + 8 * j + lane % 4 * 2, p.columns, words,
                            sums[i][j][2 * half], sums[i][j][2 * half + 1]);
    }
}

template <class Element, class A, class B>
UNISONO_DEVICE void matrix_product(const MatrixProductParams& p) {
  UNISONO_DYNAMIC_SHARED(shared);
  u16* const stages = reinterpret_cast<u16*>(shared);
  const u32 tiles = p.row_tiles * p.column_tiles, batch = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const u32 first_row = tile / p.column_tiles * kTile, first_column = tile % p.column_tiles * kTile;
  const u16* const a = matrix_of(p.a, p.batches, batch);
  const u16* const b = matrix_of(p.b, p.batches, batch);
  const auto load = [&](u32 block) {
    u16* const to = stages + block % 2 * (A::kElements + B::kElements);
    load_operand<A>(to, a, p.a.row, p.a.column, first_row, p.rows, block * kDepth, p.depth);
    load_operand<B>(to + A::kElements, b, p.b.column, p.b.row, first_column, p.columns, block * kDepth, p.depth);
    copy_async_commit();
  };
  const u32 warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
  const u32 blocks = (p.depth + kDepth - 1) / kDepth;
  float sums[2][4][4] = {};
  if (blocks > 0) load(0);
  for (u32 block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      load(block + 1);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    const u32 at = shared_address(stages + block % 2 * (A::kElements + B::kElements));
    multiply_tiles<Element, A, B>(sums, at, at + 2 * A::kElements, row, column);
    __syncthreads();  // the stage is free
  }
  store_sums<Element>(p, batch, sums, first_row + row, first_column + column);
}

}  // namespace unisono::product
