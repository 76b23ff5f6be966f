// What an epilogue reads that stores from registers (epilogue/fragment_epilogue.cuh). A plain struct, the same to the
// host's compiler.
#pragma once
#include "unisono/params/params.cuh"

namespace unisono {

struct TileParams {
  void *output, *side;  // dense; side: the second store, null without one
  ConvGeometry geometry;
  ExchangeParams norm;
  FoldParams folds;  // epilogue/folds.cuh
  EpochParams launch;
};

}  // namespace unisono
