// What the host writes and a kernel reads: plain structs, the same to the host's compiler. No device code.
#pragma once
#include "unisono/params/words.cuh"

namespace unisono {

struct alignas(64) TensorMap {
  u8 bytes[128];
};  // CUtensorMap, opaque to the device

// The convolution as a matrix product: M = output pixels, N = output channels, K = filter taps x input channels.
struct ConvGeometry {
  // The output as images x rows x channels. A tile never straddles images. Tiles of consecutive pixels without anything
  // per image: `images` is 1 and `rows` is all N*P*Q pixels, so that tiles run through the borders between images.
  int images, rows, channels;
  int tiles_m, tiles_n, tiles;         // cluster tiles: per image, across the channels, in all
  int height, width;                   // output pixels of an image: P, Q
  int tiles_w;                         // two-dimensional tiles across an image: ceil(Q / 8)
  int taps_h, taps_w, channel_blocks;  // R, S, ceil(C / kTileK)
  int splits;                          // CTAs that share a tile, each over a part of the k-blocks; 1: none
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;  // pad: top and left
  // Divisors replace divisions by multiplications when tiles and pixels are located: a division takes 100 clocks, and
  // the first load of a launch waits for four of them.
  Divisor by_tiles_n, by_tiles_m, by_image, by_group,
      by_phase;  // image: tiles_m * tiles_n; group: tiles_n of each row in a group; phase: tiles_n / 4
  Divisor by_tiles_w, by_width, by_pixels, by_splits;  // pixels: height * width
  // In volumes (tile/layout.cuh) height counts the output rows of all planes, and taps_h the filter rows of all its
  // planes; the fields below count those of one plane. pad_d: before the first plane. Halo tiles of volumes: taps_h
  // counts the rows of one filter plane, channel_blocks those of all planes one after another, plane_taps_h those of
  // one, and by_plane_height divides by the tiles down a plane.
  int plane_height, plane_taps_h, stride_d, pad_d, dilation_d;
  Divisor by_plane_height;
  // By output-parity phases (tile/layout.cuh): height, width and rows are the output's, taps those of a phase, pads the
  // transposed convolution's; tiles_n counts the tiles of all phases.
};

// Fills in the divisors of a geometry whose other fields are set; `group`: rows of tiles, see tile/tile_scheduler.cuh.
constexpr void set_divisors(ConvGeometry& g, int group) {
  const auto by = [](i64 x) { return divisor(u64(x > 0 ? x : 1)); };
  g.by_tiles_n = by(g.tiles_n), g.by_tiles_m = by(g.tiles_m), g.by_image = by(i64(g.tiles_m) * g.tiles_n);
  g.by_group = by(i64(group > 0 ? group : 1) * g.tiles_n), g.by_phase = by(g.tiles_n / 4);
  g.by_tiles_w = by(g.tiles_w), g.by_width = by(g.width), g.by_pixels = by(i64(g.height) * g.width),
  g.by_splits = by(g.splits), g.by_plane_height = by(g.plane_height);
}

// Operands that are loaded without a tensor map, and outputs that are stored without one. Steps count elements;
// `unused` keeps padding out, so that equal launches are handed equal bytes.
struct GatheredImage {
  const void* memory;
  u64 step_image;
  int step_h, step_w, step_c;
  int height, width, channels;  // of the input; channels of a group
  int taps_w, depth;            // S, R * S * channels
  int group_filters;            // output channels of a group
  int unused;
};
struct GatheredFilter {
  const void* memory;
  u64 step_image;  // from one product's to the next; 0: all images have the same
  int step_filter, step_tap, step_c, step_group,
      channels;  // step_group: next to step_filter, for each group of filters
  int unused;
};
// Filters with im2col in shared memory (load/sm90_explicit_im2col.cuh).
struct Im2colFilter {
  const void* memory;
  int whole_lines;  // the image's map has (elements of an image row, image rows, images); else (channels, pixels, image
                    // rows, images), which may lie apart
  int unused;
};
// Filters of groups (load/sm90_group_filters.cuh): (K, R, S, C/G).
struct GroupFilters {
  const void* memory;
};
struct PlainOutput {
  void* memory;
};
// The largest of each 2x2 pixels of the main store; pixels lie `pitch` elements apart.
struct PooledOutput {
  void* memory;
  u64 pitch;
};

// An image NCHW and filters KCRS, and where in its workspace a launch converts them to: load/sm90_from_planes.cuh. And
// where results in planes go that TMA does not store.
constexpr int kConvertedPixels = 64, kConvertedChannels = 64, kConvertedFilterChannels = 128;  // of a unit
constexpr int kConvertedSlotBytes = 2 * kConvertedPixels * kConvertedChannels;  // where a warp has it in shared memory
struct PlanesToConvert {
  const void* image;
  const void* filter;
  void* image_to;                             // (images, pixels, padded)
  void* filter_to;                            // (filters, taps, padded)
  u32* flags;                                 // of CTAs, then of the units that are not converted ahead
  void* output;                               // of the main store
  void* spilled;                              // streamed: tiles that wait in the workspace
  int width, pixels, channels, padded, taps;  // of the input; pixels: of an image; R * S
  int blocks, bands, filter_pieces;           // of 64 channels; of 64 pixels of an image; of 128 channels
  int filter_units, units, ahead;             // of the filters; in all; that come before all else
  int units_ahead;                            // beyond a tile's image: of the tiles that are under way by then
  Divisor by_blocks, by_bands, by_filter_pieces;
};

// What a kernel has of a tensor: a map for TMA, or one of the structs named, in its bytes. The configuration says
// which; the reader of a struct casts. (Of a union the device's compiler would load the members of such structs by
// themselves, far before their use.)
template <class... Instead>
struct MapOr : TensorMap {
  static_assert(((sizeof(Instead) <= sizeof(TensorMap)) && ...), "they have room where the map would be");
};

// One tagged entry of an exchange: written and read as one. The tag is the launch's epoch plus one.
constexpr int kFloatsOfEntry = 3;
struct alignas(16) Entry {
  float values[kFloatsOfEntry];
  u32 tag;
};
// Entries that a value of that many floats fills.
constexpr int entries_of(int floats) { return (floats + kFloatsOfEntry - 1) / kFloatsOfEntry; }

// Statistics shared by the CTAs of one launch, see exchange/statistics_exchange.cuh; or moments that are stored,
// `slots` alone: exchange/moment_store.cuh. Each statistic is a message of entries_of(its floats) entries.
struct ExchangeParams {
  Entry* slots;     // (images, slots, pieces, entries of a message)
  Entry* segments;  // (images, segments, pieces, entries); `slots` itself if a segment is one slot
  int slots_per_image, segment_slots, segments_per_image, group_channels;
  Divisor by_group_channels, by_common_channels;  // common: from where a group and a tile begin to the next such place
};

struct SplitParams {
  void* partials;  // float: (tiles, splits - 1, warpgroups of a tile, accumulators / 4, 128, 4)
  u32* flags;      // (tiles, splits - 1, warpgroups of a tile)
};

// Stored reductions of a launch, see epilogue/folds.cuh; all sizes follow from the geometry and the visitor.
struct FoldParams {
  float *partials, *results, *rows;  // of warpgroups' tiles; of columns of tiles; of rows whose tiles are several
  u32* counters;                     // of columns of tiles: all in one; a column each; then of rows of tiles; of what
                                     // elements read again, a level after the other; of segments and of tiles across
};

// A column's slots are merged by segments of neighbours first, so that nobody reads all of them one after the other:
// of that many slots each, about as many as there are segments. Few slots are one segment.
constexpr int fold_segment_slots(int slots) {
  int together = 8;
  while (together * together < slots) together *= 2;
  return together;
}
constexpr int fold_segments(int slots) { return (slots + fold_segment_slots(slots) - 1) / fold_segment_slots(slots); }
// Counters of a list of reductions: of the segments of each column, and of the columns of each tile across.
constexpr i64 fold_segment_counters(i64 images, i64 across, int slots) {
  return images * across * fold_segments(slots) + across;
}

// `exits` counts the CTAs that left launches with this workspace; divided by those of a launch it is the number of
// launches before this one, the epoch, whichever CTAs of this launch have left. It goes back to 0 from `last`, after
// kEpochs launches. In a checked build (UNISONO_WATCHDOG) the word after it counts the CTAs that came.
constexpr u32 kEpochs = 1 << 15;
struct EpochParams {
  u32* exits;
  u32 last;
  Divisor by_ctas;
  u32 unused;
};

// The one parameter of sm90/conv_fprop.cuh is this, followed by further maps, if it has any, and by the visitor's
// Params.
struct alignas(64) ConvParams {
  MapOr<GatheredImage> activation;
  MapOr<GatheredFilter, Im2colFilter, GroupFilters> filter;
  MapOr<PlainOutput> output, side;  // side: the second store; unused without one
  ConvGeometry geometry;
  ExchangeParams norm;
  SplitParams split;
  EpochParams launch;
  void* side_memory;  // base of the second store's tensor
  u64* timeline;      // see Trace; null without UNISONO_TRACE
  FoldParams folds;
};

// A depthwise convolution's image, and how strips of the output, of a thread each, follow one another. Steps count
// elements.
struct DepthwiseImage {
  const void* memory;
  u64 step_image;
  i64 step_h, step_w;
  int height, width;         // of the input
  int lattice_h, lattice_w;  // output pixels from a strip's image row, and column, to its next
  int strip_lines;
  u32 strips, image_strips, band_strips, band_lines;      // in all; of an image; of a band of that many rows of strips
  Divisor by_channel_tiles, by_image, by_band, by_lines;  // tiles_n, image_strips, band_strips, band_lines
  u32 unused;
};
// A depthwise convolution's filters (K, R, S), dense.
struct DepthwiseFilter {
  const void* memory;
};
// Its main store, whose pixels lie `pitch` elements apart.
struct PitchedOutput {
  void* memory;
  u64 pitch;
};

// A struct as bytes, which its reader casts back, for the same reason.
template <class T>
struct alignas(64) Opaque {
  u8 bytes[sizeof(T)];
};

// The one parameter of sm90/depthwise.cuh is this, followed by the visitor's Params. Nothing is loaded or stored by
// TMA.
struct DepthwiseParams {
  Opaque<DepthwiseImage> image;
  Opaque<DepthwiseFilter> filter;
  Opaque<PitchedOutput> output;
  void* side_memory;  // of the second store; null without one
  ConvGeometry geometry;
};

}  // namespace unisono
