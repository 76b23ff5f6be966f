// Tiles of several groups: which of a tile's filters a k-step's channels meet. Compiled by host and device.
#pragma once

namespace unisono {

// A matrix instruction multiplies 16 channels. Those of `steps` instructions are all that the tile's groups have;
// `together` of them one after another meet the same `filters`, which are the tile's, or a slice of them.
struct GroupSlices {
  int filters, together, steps;
};

// A tile has n filters, and its groups have that many channels and filters each.
constexpr GroupSlices group_slices(int n, int channels, int filters) {
  const int least = 16 % channels == 0 ? 16 : 32 % channels == 0 ? 32 : 64;  // channels of whole groups
  const int own = least % channels == 0 ? least / channels * filters : n, steps = (n / filters * channels + 15) / 16;
  // Rows of an operand begin at multiples of 8, as their swizzle does
  if (own % 8 != 0 || own >= n || n % own != 0) return {n, steps, steps};
  return {own, least / 16, steps};
}

}  // namespace unisono
