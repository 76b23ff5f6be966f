// What a message of an exchange is of: a piece, a run of channels that crosses neither a group's border nor a tile's.
#pragma once
#include "unisono/params/params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono {

// Pieces of kUnit channels each, any divisor of both widths.
template <int kTileChannels, int kUnit, bool kByCuts>
struct Pieces {
  static constexpr int kColumns = kTileChannels, kMostOfTile = kTileChannels / kUnit;
  static constexpr bool kCut = false;
  // Pieces that end at or before channel `border`, where a group or a tile begins or the last one ends.
  static UNISONO_DEVICE int before(const ExchangeParams&, int border) { return border / kUnit; }
  static UNISONO_DEVICE int of(const ExchangeParams&, int channel) { return channel / kUnit; }
  static UNISONO_DEVICE int most_of_group(const ExchangeParams& p) { return p.group_channels / kUnit; }
  static UNISONO_DEVICE int before_group(const ExchangeParams& p, int group) { return group * most_of_group(p); }
};
// Where tiles and groups cut one another, a piece may be all channels that both share. Each border of a tile or a group
// begins one, and where both begin only one.
template <int kTileChannels, int kUnit>
struct Pieces<kTileChannels, kUnit, true> {
  static constexpr int kColumns = kTileChannels;
  static constexpr bool kCut = true;
  static UNISONO_DEVICE int before(const ExchangeParams& p, int border) {
    return border > 0 ? of(p, border - 1) + 1 : 0;
  }
  static UNISONO_DEVICE int of(const ExchangeParams& p, int channel) {
    return int(u32(channel) / kColumns) + divided(channel, p.by_group_channels) -
           divided(channel, p.by_common_channels);
  }
  static UNISONO_DEVICE int most_of_group(const ExchangeParams& p) { return (p.group_channels - 2) / kColumns + 2; }
  static UNISONO_DEVICE int before_group(const ExchangeParams& p, int group) {
    return before(p, group * p.group_channels);
  }
};

// The pieces of a tile: of a part of a group each, or of several parts.
template <class Of>
struct TilePieces {
  int last, first, count;  // the tile's channels end there; its pieces
  UNISONO_DEVICE TilePieces(const ExchangeParams& p, int first_channel, int channels)
      : last(smaller(first_channel + Of::kColumns, channels)),
        first(Of::before(p, first_channel)),
        count(count_of(p)) {}
  UNISONO_DEVICE int count_of(const ExchangeParams& p) const {
    if constexpr (Of::kCut)
      return Of::before(p, last) - first;
    else
      return Of::kMostOfTile;  // some beyond the last channel
  }
};

// log2 of the neighbouring lanes that divide each of `count` tasks among 2^log threads: all have some where there are
// as many threads. At most `most`.
UNISONO_DEVICE int lanes_log(int log, int count, int most) {
  return larger(0, smaller(smaller(5, log - (32 - __clz(count - 1))), most));
}

// kCut: calls each(piece, from, to, lane, lanes) for the pieces of a tile, of its channels [from, to), by neighbouring
// lanes of a warpgroup. Whole warps take part; lanes beyond the last piece have no channels.
template <class Of, class Each>
UNISONO_DEVICE void for_pieces(const ExchangeParams& p, int thread, int first_channel, int channels, const Each& each) {
  const TilePieces<Of> of_tile(p, first_channel, channels);
  const int group = divided(first_channel, p.by_group_channels), log = lanes_log(7, of_tile.count, 5), lanes = 1 << log;
  for (int i = thread >> log; (i & ~((32 >> log) - 1)) < of_tile.count; i += 128 >> log) {
    const int border = (group + i) * p.group_channels;
    each(of_tile.first + i, larger(first_channel, border) - first_channel,
         smaller(of_tile.last, border + p.group_channels) - first_channel, thread & (lanes - 1), lanes);
  }
}

}  // namespace unisono
