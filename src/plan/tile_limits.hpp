#pragma once
/// What a tile of the kernels holds for which an epilogue is analysed; families say: families::tile_limits().

#include <cstdint>

namespace unisono::plan {

struct TileLimits {
  std::int64_t channels = 0;  ///< in a row, at most
};

}  // namespace unisono::plan
