// What the tiles of sm90_filter_gradient.cuh are, and how their sums over parts of the pixels are added.
#pragma once
#include "unisono/params/sm90_filter_gradient_params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono::product {

// Filters by slabs of a tile. kHalo: of halo tiles, whose slabs are the taps of the same channels.
template <bool kHaloOf, int kRowsOf, int kSlabsOf>
struct Sm90FilterGradientTile {
  static constexpr bool kHalo = kHaloOf;
  static constexpr int kRows = kRowsOf, kSlabs = kSlabsOf, kColumns = 64 * kSlabsOf;
  static constexpr i64 kSums = i64(kRows) * kColumns;

  struct Slab {
    int tap, channel;  // its first channel of the group
    bool exists;
  };
  static UNISONO_DEVICE Slab slab(const Sm90FilterGradientParams& p, int column, int i) {
    if constexpr (kHalo) return {i, 64 * column, true};
    const int slab = column * kSlabs + i;
    return {slab / p.channel_slabs, slab % p.channel_slabs * 64, slab < p.slabs};
  }
};

// Adds the parts of four sums: each team of threads those of its share, the first to the second and so on, and then the
// teams' sums in their order.
template <class Element, class Tile, bool kF32>
UNISONO_DEVICE void sm90_filter_gradient_of_parts(const Sm90FilterGradientParams& p) {
  constexpr int kThreads = 256;
  __shared__ float4 of_teams[kThreads];
  const int width = kThreads / p.teams, team = int(threadIdx.x) / width, place = int(threadIdx.x) % width;
  const i64 first = 4 * (i64(blockIdx.x) * width + place);  // of the sums of all tiles
  const int cut = int(first / Tile::kSums), of_tile = int(first % Tile::kSums);
  const int tile = p.whole + cut,
            filter = tile / p.column_tiles % p.filter_tiles * Tile::kRows + of_tile / Tile::kColumns;
  const auto slab = Tile::slab(p, tile % p.column_tiles, of_tile % Tile::kColumns / 64);
  const int channel = slab.channel + of_tile % 64;
  const bool exists = tile < p.tiles && filter < p.filters && slab.exists && channel < p.channels;
  const int share = divide_up(p.parts, p.teams), begin = team * share, end = smaller(begin + share, p.parts);
  float4 sum{0, 0, 0, 0};
  if (exists) {
    const float* from = p.partials + (i64(cut) * p.parts + begin) * Tile::kSums + of_tile;
#pragma unroll 8
    for (int part = begin; part < end; ++part, from += Tile::kSums) {
      const float4 x = *reinterpret_cast<const float4*>(from);
      sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
  }
  of_teams[threadIdx.x] = sum;
  __syncthreads();
  if (team > 0 || !exists) return;
  for (int i = 1; i < p.teams; ++i) {
    const float4 x = of_teams[i * width + place];
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
  }
  const i64 row = i64(tile / p.column_tiles / p.filter_tiles) * p.filters + filter,
            to = row * p.result_filter + slab.tap * p.result_tap + channel;
  if constexpr (kF32)
    *reinterpret_cast<float4*>(static_cast<float*>(p.result) + to) = sum;
  else
    *reinterpret_cast<uint2*>(static_cast<u16*>(p.result) + to) = {Element::pack(sum.x, sum.y),
                                                                   Element::pack(sum.z, sum.w)};
}

}  // namespace unisono::product
