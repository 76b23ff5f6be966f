// How a tile is normalised, and where one lies: what every kernel's epilogue is told.
#pragma once

namespace unisono {

enum class Norm {
  kNone,
  kResident,  // accumulators wait in registers for the image's statistics
  kStreamed,  // centred values wait in shared memory while the next tile is multiplied; if the image is not complete by
              // then, in the output's place in memory
  kRows,      // over the channels of one pixel, all of which are in the tile: nothing is exchanged
  kGeneral,   // none of these; rows have their own values, reductions are read or stored: epilogue/general.cuh
};

// The rows and channels of a tile that one warpgroup holds.
template <class Rows>
struct WarpgroupTile {
  int image, slot, first_channel;
  Rows rows;
};

}  // namespace unisono
