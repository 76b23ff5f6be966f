// How slices of a tile leave the staging buffers.
#pragma once
#include "unisono/epilogue/sm90_fragment.cuh"
#include "unisono/ptx/sm90_tma.cuh"
#include "unisono/tile/resample.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Config, class Visitor>
struct OctetStores;
// Whether eight pixels of a channel leave at once: epilogue/sm90_octet_stores.cuh. Not if operands are fetched: these
// arrive in the staging buffers, which are free again only once TMA has read them.
template <class Config>
UNISONO_DEVICE constexpr bool stores_octets() {
  return Config::kStores == Stores::kPlanesTma && Config::kTwoDimensional && Config::Operands::kFromPlanes &&
         Config::kFetch == 0;
}

// The main store and the second: by TMA,
template <class Tile>
struct LeaveByTma {
  using At = typename Tile::At;
  static UNISONO_DEVICE void send_main(const Tile& tile, const u8* buffer, const At& at, int m, int slice) {
    if ((tile.thread & 31) == 0) tile.store_main(buffer, at, m, slice);
  }
  static UNISONO_DEVICE void send_side(const Tile& tile, const u8* buffer, const At& at, int m, int slice) {
    if ((tile.thread & 31) == 0) tile.store_slice(tile.side_map(at), buffer, at, m, slice);
  }
  static UNISONO_DEVICE void commit(const Tile& tile) {
    if ((tile.thread & 31) == 0) tma_store_commit();
  }
  static UNISONO_DEVICE void send_after(const Tile&, u8*, const At&, int, int) {}
};
// by ordinary stores of all lanes,
template <class Tile>
struct LeaveByLanes {
  using At = typename Tile::At;
  static UNISONO_DEVICE void send_main(const Tile& tile, const u8* buffer, const At& at, int m, int slice) {
    tile.store_plain(tile.fixed.output, buffer, at, m, slice);
  }
  static UNISONO_DEVICE void send_side(const Tile& tile, const u8* buffer, const At& at, int m, int slice) {
    tile.store_plain(tile.fixed.side, buffer, at, m, slice);
  }
  static UNISONO_DEVICE void commit(const Tile&) {}
  static UNISONO_DEVICE void send_after(const Tile&, u8*, const At&, int, int) {}
};
// or the main one by ordinary stores of eight pixels, after the second has left by TMA.
template <class Tile>
struct LeaveInOctets : LeaveByTma<Tile> {
  using At = typename Tile::At;
  static UNISONO_DEVICE void send_main(const Tile&, const u8*, const At&, int, int) {}
  static UNISONO_DEVICE void send_after(const Tile& tile, u8* buffer, const At& at, int m, int slice) {
    OctetStores<typename Tile::Configuration, typename Tile::EpilogueVisitor>{tile}.store(buffer, at, m, slice);
  }
};

template <class Tile, bool kByTma, bool kOctets>
using LeavingOf = Either<!kByTma, LeaveByLanes<Tile>, Either<kOctets, LeaveInOctets<Tile>, LeaveByTma<Tile>>>;

// The largest of each 2x2 pixels of a slice that this warp, or its warpgroup, has written and synchronised: a lane has
// 16 bytes of one of the four windows in 2 lines of 8 pixels. Windows that hang over the image's edge have no place in
// the result.
template <class Tile, bool kPooled>
struct PooledSlices {
  static UNISONO_DEVICE void store(const Tile& tile, const u8* buffer, const typename Tile::At& at, int m, int slice) {
    constexpr int kSlice = Tile::kSlice, kChunks = kSlice / 8;
    const ConvGeometry& g = tile.geometry;
    const int lane = tile.thread & 31, chunk = lane % kChunks, window = lane / kChunks;
    const int image_row = (at.rows.top + m / 8) / 2, pixel = at.rows.left / 2 + window,
              channel = at.first_channel + slice + 8 * chunk;
    if (window >= 4 || image_row >= g.height / 2 || pixel >= g.width / 2 || channel >= g.channels) return;
    auto load = [&](int row) {
      return *reinterpret_cast<const uint4*>(buffer + SliceSwizzle<kSlice>::offset(row, chunk));
    };
    using Element = typename Tile::EpilogueVisitor::Output;
    const uint4 upper = largest<Element>(load(2 * window), load(2 * window + 1)),
                lower = largest<Element>(load(8 + 2 * window), load(9 + 2 * window));
    const PooledOutput& to = reinterpret_cast<const PooledOutput&>(tile.further[Tile::Resample::kCopies]);
    const u64 row = (u64(at.image) * (g.height / 2) + image_row) * (g.width / 2) + pixel;
    delay_point();
    *reinterpret_cast<uint4*>(static_cast<u16*>(to.memory) + row * to.pitch + channel) = largest<Element>(upper, lower);
  }
};
template <class Tile>
struct PooledSlices<Tile, false> {
  static UNISONO_DEVICE void store(const Tile&, const u8*, const typename Tile::At&, int, int) {}
};

}  // namespace unisono
