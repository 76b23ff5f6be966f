// Stores halo tiles channels first. A row of 8 pixels has 16 bytes, and TMA takes as long for 16 bytes as for 128, so a
// lane stores each row itself.
#pragma once
#include "unisono/epilogue/sm90_epilogue.cuh"
#include "unisono/ptx/global.cuh"

namespace unisono {

UNISONO_DEVICE const PlanesToConvert& converted_planes(const MapOr<PooledOutput, PlanesToConvert>* only) {
  return reinterpret_cast<const PlanesToConvert&>(*only);
}

template <class Config, class Visitor>
struct OctetStores {
  using Tile = Epilogue<Config, Visitor>;
  using At = typename Tile::At;
  using Planes = typename Tile::Planes;
  const Tile& tile;

  // Eight pixels of a channel, from the tile's row m on; none beyond the image.
  UNISONO_DEVICE void put(const At& at, int m, int channel, uint4 eight) const {
    const ConvGeometry& g = tile.geometry;
    if (!at.rows.valid(m) || channel >= g.channels) return;
    void* const to = static_cast<u16*>(converted_planes(tile.further).output) +
                     (u64(at.image) * g.channels + channel) * g.rows + at.rows.pixel(m);
    CacheHints<Hints<Config>::kValue>::store(to, eight);
  }

  // This warp's quarter of a slice, which it has written and synchronised.
  UNISONO_DEVICE void store(u8* quarter, const At& at, int m, int slice) const {
    const int first = at.first_channel + slice + m % 64 / 16 * Planes::kChannels;
    const u32 base = shared_address(quarter);
    delay_point();
#pragma unroll
    for (int i = 0; i < Planes::kOctets / 32; ++i) {
      const auto place = Planes::place(i, tile.thread & 31);
      const u8* eight = quarter + (Planes::at(base, place.channel, place.octet) - base);
      put(at, m / 64 * 64 + 8 * place.octet, first + place.channel, *reinterpret_cast<const uint4*>(eight));
    }
  }
};

}  // namespace unisono
