// The layout, in bytes, of the shared memory of a CTA of sm90/conv_kernel.cuh. The host plans a launch by it, and the
// device's compiler places everything by it.
#pragma once

namespace unisono::shared_layout {

using Bytes = long long;  // a plan that is refused may need any number

inline constexpr Bytes kSwizzle = 1024;  // TMA swizzles spans of 128 bytes of tiles that begin at multiples of it

constexpr Bytes up_to(Bytes x, Bytes multiple) { return (x + multiple - 1) / multiple * multiple; }
constexpr Bytes least(Bytes x, Bytes y) { return x < y ? x : y; }
constexpr Bytes most(Bytes x, Bytes y) { return x > y ? x : y; }

// A stage of both operands. Of operands with their k side by side a step deeper than 128 bytes is several atoms, each
// with all rows.
struct StageShape {
  int tile_m, tile_n, step_bytes;  // step_bytes: the tile's k
  bool halo;                       // 8 pixels of each of tile_m / 8 image rows, with
  int halo_h, halo_w;              // that many image rows and pixels more
  bool columns_b;                  // boxes of 64 columns of filters (k, n)
  bool direct;                     // no stages: operands are read where they lie
  int products;                    // filters of that many products, each of tile_n rows or columns
};
struct StageLayout {
  int atoms;
  Bytes row, line,
      box;  // row: of an atom; line: from an image row of a tile, 8 pixels, to the next; box: of 64 columns
  Bytes atom_a, atom_b, a, b;  // of activations and filters
};
constexpr StageLayout stage_layout(const StageShape& s) {
  StageLayout l{};
  l.atoms = s.step_bytes > 128 ? s.step_bytes / 128 : 1, l.row = s.step_bytes / l.atoms;
  l.line = (8 + (s.halo ? Bytes{s.halo_w} : 0)) * l.row, l.box = Bytes{64} * s.step_bytes;
  l.atom_a = s.halo ? up_to((s.tile_m / 8 + Bytes{s.halo_h}) * l.line, kSwizzle) : s.tile_m * l.row;
  l.atom_b = Bytes{s.products} * s.tile_n * l.row;
  if (s.direct) return l;
  l.a = l.atoms * l.atom_a;
  l.b = s.columns_b ? s.products * (up_to(s.tile_n, 64) / 64) * l.box : l.atoms * l.atom_b;
  return l;
}

// Channels of a slice, which one warp stores at once: the largest of 64, 32, 16, 8 that divides the tile's.
constexpr int slice_channels(int tile_n) {
  return tile_n % 64 == 0 ? 64 : tile_n % 32 == 0 ? 32 : tile_n % 16 == 0 ? 16 : 8;
}

// A consumer warpgroup's epilogue.
struct EpilogueShape {
  int tile_n, rows;  // rows: of the warpgroup
  int store_buffers;
  bool exchanges, by_rows, second_pass;  // how it normalises, if it does: resident or streamed, over a row; streamed
  bool deferred;                         // over a row, after the next tile's main loop
  int exchanged;  // floats of what is exchanged, if that is not the moments of a value (epilogue/exchanged.cuh)
  bool stores_moments;
  int fetch;                                      // operands [m,n] that TMA brings
  bool fetches_before;                            // of those before the normalisation
  int columns_before, columns_after, late_words;  // column values of the visitor; operands of factor and shift
  bool side_before, side_after;                   // the second store [m,n]
  Bytes folds;                                    // bytes of a general epilogue's reductions
};
// Four warps' staging; columns; moments, where these have no room in the staging; the second store's staging;
// reductions; staging of fetched operands beyond the first.
struct EpilogueLayout {
  Bytes slice;
  int slices, stores_per_tile;  // across a tile; that a warp stores of one
  Bytes staging, moments;       // of a warp
  bool apart;                   // moments have their own place
  int before, after, columns;   // column values: the visitor's, all
  int side_buffers;
  Bytes at_side, at_folds, at_fetched, bytes;
};
constexpr EpilogueLayout epilogue_layout(const EpilogueShape& s) {
  EpilogueLayout l{};
  const int channels = slice_channels(s.tile_n);
  l.slice = 16 * channels * 2, l.slices = s.tile_n / channels, l.stores_per_tile = s.rows / 64 * l.slices;
  l.staging = up_to(most(l.slice * s.store_buffers, s.exchanges ? s.tile_n * 8 : 0), kSwizzle);
  l.apart = s.second_pass || s.exchanged > 0 || s.stores_moments || (s.exchanges && s.fetch > 0 && !s.fetches_before);
  l.moments = l.apart ? s.tile_n * 4 * most(2, s.exchanged) : l.staging;
  l.before = s.exchanges || s.by_rows ? s.columns_before : 0, l.after = s.second_pass ? 0 : s.columns_after;
  // mean, and factor and shift, in whose place their operands wait until the statistics are known
  l.columns = l.before + l.after +
              (!s.exchanges || s.exchanged > 0 ? 0
               : s.second_pass                 ? 1
                                               : 1 + int(most(2, s.late_words)));
  l.side_buffers = s.side_before                    ? int(least(2, l.stores_per_tile))
                   : s.side_after && !s.second_pass ? s.store_buffers
                                                    : 0;
  const Bytes columns = Bytes{l.columns} * s.tile_n * 4 * (s.deferred ? 2 : 1);
  const Bytes own = 4 * l.staging + columns + (l.apart ? 4 * l.moments : 0);
  l.at_side = up_to(own, kSwizzle);
  l.at_folds = up_to(l.side_buffers > 0 ? l.at_side + 4 * l.side_buffers * l.slice : own, 16);
  l.at_fetched = up_to(l.at_folds + s.folds, kSwizzle);
  l.bytes = s.fetch > 1 ? l.at_fetched + (s.fetch - 1) * 4 * s.store_buffers * l.slice : l.at_folds + s.folds;
  return l;
}

// Reductions of a general epilogue over the rows of a tile: of a channel and warp, and of the whole tile.
constexpr Bytes fold_bytes(int words, int tile_n, int tile_folds) {
  return 16 * (Bytes{words} * tile_n + tile_folds + 1);
}
// A line of a row's results over groups of its channels, in floats; odd, so that rows begin in different banks.
constexpr int group_line(int places) { return places | 1; }
constexpr Bytes group_bytes(int places, int rows) { return up_to(Bytes{4} * group_line(places) * rows, 16); }

// Sums of a slice on their way to lanes that take eight channels each (epilogue/general_shared.cuh): of four warps, 16
// rows each. A line, in floats, is longer by 8, so that the eight rows that lanes write at once are in different banks.
constexpr int element_line(int channels) { return channels + 8; }
constexpr Bytes element_bytes(int tile_n) { return Bytes{4} * 16 * element_line(slice_channels(tile_n)) * 4; }

// The second pass: of a consumer group columns (of a normalisation mean, factor and shift; the visitor's) and the
// statistics of as many channels as the groups of a tile may have, up to 64 channels wide; of a warpgroup four warps'
// offsets, the centres of the tile that it keeps, and a barrier for each staging buffer.
constexpr int second_pass_first(bool normalises) { return normalises ? 3 : 0; }
constexpr int second_pass_columns(int columns_after, bool normalises) {
  return second_pass_first(normalises) + columns_after;
}
constexpr int second_pass_scratch(int tile_n) { return tile_n + 126; }
constexpr Bytes second_pass_group(int columns_after, bool normalises, int tile_n, int statistic_bytes) {
  return up_to(Bytes{4} * second_pass_columns(columns_after, normalises) * tile_n +
                   second_pass_scratch(tile_n) * statistic_bytes,
               16);
}
constexpr Bytes second_pass_own(int tile_n, int store_buffers) {
  return up_to(5 * tile_n * 4 + 4 * store_buffers * 8, 16);
}

// Barriers of a warpgroup's staging buffers that fetched operands arrive in.
constexpr int fetch_barriers(int fetch, bool shared, int store_buffers) {
  return fetch > 0 ? (shared ? 1 : 4) * store_buffers : 0;
}

// The image rows of a window of load/sm90_explicit_im2col.cuh, and its bytes.
constexpr int window_lines(int tile_m, int stride_h, int lines, int dilation_h) {
  return (tile_m / 8 - 1) * stride_h + (lines - 1) * dilation_h + 1;
}
constexpr Bytes window_bytes(int lines, int pitch) { return up_to(Bytes{lines} * pitch, 128); }

// An entry of the table of gathered rows: load/sm90_gather.cuh.
inline constexpr int kGatheredRow = 16;

// A CTA.
struct CtaShape {
  StageLayout stage;
  int stages, stages_a, stages_b;  // stages: pairs of barriers; of activations; of filters
  bool two_rings;                  // activations have their own barriers
  int consumers, consumer_groups;  // warpgroups, and tiles under way
  Bytes warpgroup;                 // of an epilogue
  bool second_pass;
  Bytes per_consumer_group, own;  // of it
  int fetch_barriers;             // of a consumer
  int windows;                    // of the image, each of
  Bytes window;
  Bytes table;  // of the rows that are gathered; 0: none are
  Bytes units;  // of planes that spare warps convert
};
struct CtaLayout {
  Bytes warpgroup;  // from one epilogue to the next
  Bytes at_b, at_epilogues, at_second_pass, at_barriers, at_table, at_windows, at_units, bytes;
};
constexpr CtaLayout cta_layout(const CtaShape& s) {
  CtaLayout l{};
  l.warpgroup = up_to(s.warpgroup, kSwizzle);
  l.at_b = Bytes{s.stages_a} * s.stage.a;
  l.at_epilogues = l.at_b + s.stages_b * s.stage.b;
  l.at_second_pass = l.at_epilogues + s.consumers * l.warpgroup;
  l.at_barriers =
      l.at_second_pass + (s.second_pass ? s.consumer_groups * s.per_consumer_group + s.consumers * s.own : 0);
  const int fetched = s.consumers * s.fetch_barriers;
  l.at_table = up_to(l.at_barriers + 8 * (2 * s.stages + 6 + fetched), 16);
  l.at_windows = s.windows > 0 ? up_to(l.at_table + Bytes{16} * s.windows, 128) : 0;
  const int barriers = 2 * s.stages + (s.two_rings ? 2 * s.stages_a : 0) + 2 + (s.second_pass ? 4 : 0) + fetched;
  const Bytes end = s.windows > 0 ? l.at_windows + s.windows * s.window
                    : s.table > 0 ? l.at_table + s.table
                                  : l.at_barriers + 8 * barriers;
  l.at_units = up_to(end, 128);
  l.bytes = (s.units > 0 ? l.at_units + s.units : end) + kSwizzle;  // the CTA aligns its memory itself
  return l;
}

}  // namespace unisono::shared_layout
