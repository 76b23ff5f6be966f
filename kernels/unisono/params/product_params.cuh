// Parameters of the kernels of product/: batches of matrices with any strides in tensors of 16-bit elements. Plain
// structs, the same to the host's compiler.
#pragma once
#include "unisono/params/params.cuh"

namespace unisono {

// A batch is numbered row-major over these axes; those that are not used have an extent of 1.
constexpr int kBatchAxes = 4;
struct BatchSpace {
  u32 extents[kBatchAxes];
};

// Matrices in memory. Strides count elements; 0 repeats.
struct BatchedMatrix {
  void* memory;
  i64 batch[kBatchAxes];
  i64 row, column;
};

// What is added to the scores of attention, in f32 or in 16 bits. Where `replaces`, one that is next to minus infinity
// takes the score's place, even of a score that is NaN.
struct AttentionMask {
  BatchedMatrix values;
  u32 is_f32, replaces;
};
constexpr int kAttentionMasks = 2;

// Which rows are 0 instead of NaN: none, those that see no key, or all.
enum AttentionGuard : u32 { kUnguarded, kUnseeingRows, kNanRows };

// y = softmax(scale q k^T + masks) v, for each of the batch: q (queries, width), k (keys, width), v (keys,
// value_width). A CTA takes a tile of queries.
struct AttentionParams {
  BatchSpace batches;
  u32 queries, keys, width, value_width;
  u32 query_tiles;  // of a batch
  float scale;      // times log2(e); above 0
  u32 guard;        // AttentionGuard
  u32 unused;
  BatchedMatrix q, k, v, y;
  AttentionMask masks[kAttentionMasks];
};

// The same without masks. TMA addresses queries, keys and values as (columns, rows, inner, outer): batches have two
// axes, and each steps by 1 or, where an operand is repeated, by 0.
struct Sm90AttentionParams : AttentionParams {
  u32 inner;  // batches along the inner axis
  u32 inner_step[3], outer_step[3];
  TensorMap maps[3];
};

// c = a b, for each of the batch: a (rows, depth), b (depth, columns). A CTA takes a tile of 64 x 64.
struct MatrixProductParams {
  BatchSpace batches;
  u32 rows, columns, depth;
  u32 row_tiles, column_tiles;
  u32 unused;
  BatchedMatrix a, b, c;
};

}  // namespace unisono
