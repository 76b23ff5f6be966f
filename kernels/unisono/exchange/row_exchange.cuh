// What the tiles of a row, neighbours across the channels, have of it, merged from all of them: the rows of a
// warpgroup's part of a line of tiles, an entry of three floats (exchange/message.cuh) for each row and tile.
//
// Each tile writes its entries and waits for those of all tiles across, which are neighbours in the order of tiles and
// all in flight. Across more than kDirectly tiles, what all of them would read grows with the square of their number,
// so each of them merges its share of the rows, writes an entry for each, and waits for those of its rows.
//
// A Part is what is merged: nothing at first, add(x, y, z) of a tile, and over<kLanes>(), which merges those of
// neighbouring lanes, in the same order in each of them; kAtOnce: how many tiles' a lane loads at once, 1 or 2. The one
// that has several of a row calls publish() for all of them, then share(), then collect(): so they wait once.
#pragma once
#include "unisono/exchange/message.cuh"

namespace unisono {

struct RowTriple {
  float x, y, z;
};

// Entries of an exchange: of each tile across, and merged.
UNISONO_DEVICE size_t entries_of_exchange(size_t rows, int across) { return rows * (across + 1); }

// An exchange of one entry a row and tile. Tile: epilogue/tile.cuh.
template <class Part, class Tile>
struct RowExchange {
  using Fragment = typename Tile::Fragment;
  static constexpr int kRows = Fragment::kThreadRows, kPixels = Tile::kPixels;
  static constexpr int kDirectly = 8;  // by counts: two trips to L2 in turn, or a quarter of `across`
  static constexpr int kInShare = 4;   // entries that a lane has in flight

  Entry* const entries;          // (rows, across), then of what is merged (rows)
  const size_t rows, first_row;  // of the whole launch; the first of this warpgroup's
  const int across, tile;        // tiles of a row; which of them this is
  const int thread;              // in the warpgroup
  const u32 epoch;

  // Exchange `number` of a launch, for what this warpgroup has of a tile.
  static UNISONO_DEVICE RowExchange of(const Tile& tile, const typename Tile::At& at, int number) {
    return of(tile.fixed, at, number, tile.thread, tile.epoch, tile.slots(), tile.tiles_across());
  }
  template <class Fixed>
  static UNISONO_DEVICE RowExchange of(const Fixed& fixed, const typename Tile::At& at, int number, int thread,
                                       u32 epoch, int slots, int across) {
    const size_t rows = size_t(fixed.geometry.images) * slots * kPixels;
    return {reinterpret_cast<Entry*>(fixed.folds.rows) + number * entries_of_exchange(rows, across),
            rows,
            (size_t(at.image) * slots + at.slot) * kPixels,
            across,
            at.first_channel / Tile::kN,
            thread,
            epoch};
  }

  UNISONO_DEVICE int lane() const { return thread & 31; }
  UNISONO_DEVICE Entry* line(int row) const { return entries + (first_row + row) * across; }
  UNISONO_DEVICE Entry* merged(int row) const { return entries + rows * across + first_row + row; }

  UNISONO_DEVICE void publish(const RowTriple (&own)[kRows]) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if ((r & 3) == (lane() & 3))
        write_entry(line(Fragment::row_of(thread, r)) + tile, own[r].x, own[r].y, own[r].z, epoch);
  }
  // Row t, t + across, … of tile t, a warp for each, or half a one where that has a lane for each tile: every 32nd tile
  // a lane, in order, then the lanes. By four warps of the warpgroup, or by spare ones.
  UNISONO_DEVICE void share() const { share(thread / 32, 4); }
  UNISONO_DEVICE void share(int warp, int warps) const {
    if (across <= kDirectly) return;
    if (across <= 16)
      share_by<16, 1>(warp, warps);
    else
      share_by<32, kInShare>(warp, warps);
  }
  template <int kLanes, int kInFlight>
  UNISONO_DEVICE void share_by(int warp, int warps) const {
    constexpr int kTogether = 32 / kLanes;
    for (int first = tile + warp * kTogether * across; first < kPixels; first += warps * kTogether * across) {
      const int own = first + lane() / kLanes * across, row = own < kPixels ? own : first;
      Part part;
      for (int t = lane() % kLanes; t < divide_up(across, kLanes) * kLanes; t += kLanes * kInFlight) {
        uint4 entry[kInFlight];
        await(entry, [&](int i) { return line(row) + smaller(t + kLanes * i, across - 1); });
#pragma unroll
        for (int i = 0; i < kInFlight; ++i)
          if (t + kLanes * i < across) add(part, entry[i]);
      }
      __syncwarp();
      const RowTriple all = part.template over<kLanes>();
      if (lane() % kLanes == 0 && own < kPixels) write_entry(merged(row), all.x, all.y, all.z, epoch);
    }
  }
  // What all tiles across have.
  UNISONO_DEVICE void collect(RowTriple (&all)[kRows]) const {
    if (across > kDirectly)
      read(all);
    else if (Part::kAtOnce > 1 && across > 4)
      merge<Part::kAtOnce>(all);
    else
      merge<1>(all);
  }

  // Every fourth tile a lane, in order, then the four lanes of a row. kBatch of a lane's tiles are in flight.
  template <int kBatch>
  UNISONO_DEVICE void merge(RowTriple (&all)[kRows]) const {
    Part part[kRows];
    for (int t = lane() & 3; t < across; t += 4 * kBatch) {
      uint4 entry[kRows * kBatch];
      await(entry, [&](int i) {
        return line(Fragment::row_of(thread, i % kRows)) + smaller(t + 4 * (i / kRows), across - 1);
      });
#pragma unroll
      for (int i = 0; i < kRows * kBatch; ++i)
        if (kBatch == 1 || t + 4 * (i / kRows) < across) add(part[i % kRows], entry[i]);
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kRows; ++r) all[r] = part[r].template over<4>();
  }
  UNISONO_DEVICE void read(RowTriple (&all)[kRows]) const {
    uint4 entry[kRows];
    await(entry, [&](int r) { return merged(Fragment::row_of(thread, r)); });
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      all[r] = {__uint_as_float(entry[r].x), __uint_as_float(entry[r].y), __uint_as_float(entry[r].z)};
  }
  template <int kCount, class From>
  UNISONO_DEVICE void await(uint4 (&entry)[kCount], const From& from) const {
    Watchdog watchdog;
    delay_point();
    for (;;) {
      bool complete = true;
#pragma unroll
      for (int i = 0; i < kCount; ++i) entry[i] = load_whole(from(i));
#pragma unroll
      for (int i = 0; i < kCount; ++i) complete &= entry[i].w == epoch + 1;
      if (complete) break;
      __nanosleep(kPollPause);
      watchdog.tick();
    }
  }
  static UNISONO_DEVICE void add(Part& part, const uint4& entry) {
    part.add(__uint_as_float(entry.x), __uint_as_float(entry.y), __uint_as_float(entry.z));
  }
};

}  // namespace unisono
