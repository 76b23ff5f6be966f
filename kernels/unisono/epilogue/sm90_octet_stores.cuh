// Channels first, of halo tiles: rows of 8 pixels, 16 bytes, for which TMA takes as long as for 128. A lane stores them
// itself.
#pragma once
#include "unisono/epilogue/sm90_epilogue.cuh"
#include "unisono/ptx/global.cuh"

namespace unisono {

// The main store of a tile. Fetched operands arrive in the staging buffers, for which these wait by what TMA has read.
template <class Config>
UNISONO_DEVICE constexpr bool stores_octets() {
  return Config::kStores == Stores::kPlanesTma && Config::kTwoDimensional && Config::Operands::kFromPlanes &&
         Config::kFetch == 0;
}
UNISONO_DEVICE const PlanesToConvert& converted_planes(const MapOr<PooledOutput, PlanesToConvert>* only) {
  return reinterpret_cast<const PlanesToConvert&>(*only);
}

template <class Config, class Visitor>
struct OctetStores {
  using Tile = Epilogue<Config, Visitor>;
  using At = typename Tile::At;
  using Planes = typename Tile::Planes;
  const Tile& tile;

  // Eight pixels of a channel, from the tile's row m on; none beyond the image. Elsewhere to `staged`.
  UNISONO_DEVICE void put(u8* staged, const At& at, int m, int channel, uint4 eight) const {
    if constexpr (!stores_octets<Config>()) {
      *reinterpret_cast<uint4*>(staged) = eight;
    } else {
      const ConvGeometry& g = tile.geometry;
      if (!at.rows.valid(m) || channel >= g.channels) return;
      void* const to = static_cast<u16*>(converted_planes(tile.further).output) +
                       (u64(at.image) * g.channels + channel) * g.rows + at.rows.pixel(m);
      if constexpr (Hints<Config>::kValue)
        store_evict_first(to, eight);
      else
        store_sixteen(to, eight);
    }
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
      put(nullptr, at, m / 64 * 64 + 8 * place.octet, first + place.channel, *reinterpret_cast<const uint4*>(eight));
    }
  }
};

}  // namespace unisono
