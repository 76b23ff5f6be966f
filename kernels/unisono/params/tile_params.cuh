// What an epilogue reads that stores from registers (epilogue/fragment_epilogue.cuh). A plain struct, the same to the
// host's compiler.
#pragma once
#include "unisono/params/params.cuh"

namespace unisono {

struct TileParams {
  void *output, *side;       // side: the second store, dense; null without one
  void *pooled, *upsampled;  // what is made of the main store
  i64 output_pitch, pooled_pitch,
      upsampled_pitch;  // elements from pixel to pixel: of the main store, of 16 bits; of these
  ConvGeometry geometry;
  ExchangeParams norm;
  FoldParams folds;  // epilogue/folds.cuh
  EpochParams launch;
  void* waiting;  // sums of tiles that wait in memory, float4
};

}  // namespace unisono
