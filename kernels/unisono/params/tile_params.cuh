// What an epilogue reads that stores from registers (epilogue/fragment_epilogue.cuh). A plain struct, the same to the
// host's compiler.
#pragma once
#include "unisono/params/params.cuh"

namespace unisono {

struct TileParams {
  void *output, *side;  // side: the second store, dense; null without one
  i64 output_pitch;     // elements from pixel to pixel of the main store, of 16 bits
  ConvGeometry geometry;
  ExchangeParams norm;
  FoldParams folds;  // epilogue/folds.cuh
  EpochParams launch;
};

}  // namespace unisono
