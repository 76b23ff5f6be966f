#pragma once
/// Tensor maps of the emulator, in the 128 bytes of a CUtensorMap.

#include <cstdint>

namespace unisono_emulator {

struct TensorMap {
  std::uint64_t base;
  std::uint64_t strides[4];         ///< bytes, of axes 1 to 4
  std::uint32_t extents[5];         ///< elements
  std::int16_t lower[3], upper[3];  ///< im2col: corners of the box of (w, h, d)
  std::uint16_t box[5];             ///< tiled
  std::uint16_t channels, pixels;   ///< im2col: of a load
  std::uint8_t steps[5];
  std::uint8_t rank, element_bytes, swizzle_bytes;  ///< 0: not swizzled
  bool im2col, valid;
};
static_assert(sizeof(TensorMap) <= 128);

/// Where the byte at `address` of shared memory lies once swizzled: 16-byte chunks trade places within rows of
/// `span` = 32, 64 or 128 bytes, by the number of the row.
inline std::uint32_t swizzled(std::uint32_t address, int span) {
  return address ^ ((address >> 7 & (static_cast<std::uint32_t>(span) / 16 - 1)) << 4);
}

}  // namespace unisono_emulator
