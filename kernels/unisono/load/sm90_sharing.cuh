// TMA's loads of a CTA, which the CTAs of its cluster may share.
#pragma once
#include "unisono/epilogue/held_tiles.cuh"
#include "unisono/ptx/sm90_tma.cuh"

namespace unisono {

// What a CTA's loads share with the rest of its cluster; its CTAs take turns at issuing them.
template <int kClusterM, int kClusterN>
struct ClusterLoads {
  int rank_m, rank_n;
  u16 row_ctas, column_ctas;  // the CTAs that share this one's activations, and its filters
  u32 issuer_a, issuer_b;     // whose turn it is
  UNISONO_DEVICE explicit ClusterLoads(int rank)
      : rank_m(rank / kClusterN), rank_n(rank % kClusterN), row_ctas(0), column_ctas(0), issuer_a(0), issuer_b(0) {
    for (int i = 0; i < kClusterN; ++i) row_ctas |= 1 << (rank_m * kClusterN + i);
    for (int i = 0; i < kClusterM; ++i) column_ctas |= 1 << (i * kClusterN + rank_n);
  }
  UNISONO_DEVICE void next_a() {
    if (++issuer_a == kClusterN) issuer_a = 0;
  }
  UNISONO_DEVICE void next_b() {
    if (++issuer_b == kClusterM) issuer_b = 0;
  }
};

// Loads for this CTA alone; kHints: of what is read once.
template <bool kShared, bool kHints = false>
struct TmaLoad {
  static UNISONO_DEVICE void box(const TensorMap& map, u32 to, u32 full, int x, int y, int z, u16) {
    tma_load_3d(to, map, full, x, y, z);
  }
  static UNISONO_DEVICE void box(const TensorMap& map, u32 to, u32 full, int x, int y, int z, int image, u16) {
    CacheHints<kHints>::call(kEvictFirst, [&](auto... hint) { tma_load_4d(to, map, full, x, y, z, image, hint...); });
  }
  static UNISONO_DEVICE void box(const TensorMap& map, u32 to, u32 full, int x, int y, int z, int plane, int image,
                                 u16) {
    tma_load_5d(to, map, full, x, y, z, plane, image);
  }
  template <class Coordinates>
  static UNISONO_DEVICE void im2col(const TensorMap& map, u32 to, u32 full, const Coordinates& from, u16) {
    CacheHints<kHints>::call(kEvictFirst, [&](auto... hint) { tma_load_im2col(to, map, full, from, hint...); });
  }
};
// The same for some CTAs of the cluster.
template <bool kHints>
struct TmaLoad<true, kHints> {
  static UNISONO_DEVICE void box(const TensorMap& map, u32 to, u32 full, int x, int y, int z, u16 ctas) {
    tma_load_3d_multicast(to, map, full, x, y, z, ctas);
  }
  static UNISONO_DEVICE void box(const TensorMap& map, u32 to, u32 full, int x, int y, int z, int image, u16 ctas) {
    tma_load_4d_multicast(to, map, full, x, y, z, image, ctas);
  }
  static UNISONO_DEVICE void box(const TensorMap& map, u32 to, u32 full, int x, int y, int z, int plane, int image,
                                 u16 ctas) {
    tma_load_5d_multicast(to, map, full, x, y, z, plane, image, ctas);
  }
  template <class Coordinates>
  static UNISONO_DEVICE void im2col(const TensorMap& map, u32 to, u32 full, const Coordinates& from, u16 ctas) {
    tma_load_im2col_multicast(to, map, full, from, ctas);
  }
};

}  // namespace unisono
