// The convolution as a matrix product, and which tile of it a CTA computes when.
//   M = output pixels, N = output channels, K = filter taps x input channels (see ConvGeometry).
// The pixels of a tile are consecutive, or (kTwoDimensional) 8 of each of kTileM / 8 image rows.
#pragma once
#include "unisono/tile/resample.cuh"

namespace unisono {

struct Tile {
  int image, tile_m, tile_n;  // this CTA's tile, in tiles
  int phase = 0;              // by phases: 2 * (which of two image rows) + which of two pixels
};

// Loads [begin, end) of a tile.
struct Range {
  int begin, end;
  UNISONO_DEVICE int count() const { return end - begin; }
};

// The sum of a number's digits to base 4; the caller takes it modulo 4. Among numbers at a fixed distance from one
// another, such as the tiles of a CTA, each remainder is about equally frequent.
UNISONO_DEVICE u32 digits_of(u32 number) {
  u32 sum = 0;
#pragma unroll
  for (int i = 0; i < 24; i += 2) sum += number >> i;
  return sum;
}

// Taps of a phase that its filter does not have: the first row, the first column (OddPhases of tile/layout.cuh).
template <class Operands>
struct VoidTaps {
  static constexpr bool kAny = true;
  int rows, columns;
  static UNISONO_DEVICE VoidTaps of(const ConvGeometry& g, int phase) {
    return {Operands::kOddH ? (phase / 2 + g.pad_h) % 2 : 0, Operands::kOddW ? (phase % 2 + g.pad_w) % 2 : 0};
  }
  UNISONO_DEVICE bool has(int r, int s) const { return r < rows || s < columns; }
  UNISONO_DEVICE bool has_all(const ConvGeometry& g) const { return rows == g.taps_h || columns == g.taps_w; }
  template <class Rows>
  static UNISONO_DEVICE VoidTaps of_rows(const ConvGeometry& g, const Rows& of) {
    return VoidTaps::of(g, of.phase);
  }
};
// Where no phase has any.
struct NoVoidTaps {
  static constexpr bool kAny = false;
  static constexpr int rows = 0, columns = 0;
  static UNISONO_DEVICE NoVoidTaps of(const ConvGeometry&, int) { return {}; }
  template <class Rows>
  static UNISONO_DEVICE NoVoidTaps of_rows(const ConvGeometry&, const Rows&) {
    return {};
  }
  UNISONO_DEVICE bool has(int, int) const { return false; }
  UNISONO_DEVICE bool has_all(const ConvGeometry&) const { return false; }
};

// Tiles of one input region (all channel tiles) are neighbours in the order, then those of one image. With kGroup > 0
// those of that many input regions are: where the filters exceed L2, what the chip works on at a time is then about as
// wide as high. With kGroup < 0 all tiles of the same channels of an image are neighbours. By phases (kPhases) tiles
// across the channels are those of phase 0, then of phase 1, 2 and 3; if phases differ in their taps (kTurned), of
// these from another one on for each input region, so that each CTA is dealt about as many taps.
template <int kClusterM, int kClusterN, int kGroup, bool kPhases = false, bool kTurned = false>
UNISONO_DEVICE Tile tile_at(const ConvGeometry& g, int index, int rank) {
  int n, m, image;
  if constexpr (kGroup == 0) {
    const int row = divided(index, g.by_tiles_n);
    n = index - row * g.tiles_n;
    image = divided(row, g.by_tiles_m), m = row - image * g.tiles_m;
  } else if constexpr (kGroup < 0) {
    const int column = divided(index, g.by_tiles_m);
    m = index - column * g.tiles_m;
    image = divided(column, g.by_tiles_n), n = column - image * g.tiles_n;
  } else {
    image = divided(index, g.by_image);
    const int within = index - image * g.tiles_m * g.tiles_n, group = divided(within, g.by_group) * kGroup;
    const int rows = smaller(kGroup, g.tiles_m - group), place = within - group * g.tiles_n;
    n = rows == kGroup ? place / kGroup : place / rows;
    m = group + place - n * rows;
  }
  int phase = 0;
  if constexpr (kPhases) phase = divided(n, g.by_phase), n -= phase * (g.tiles_n / 4);
  if constexpr (kTurned) phase = (phase + digits_of(image * g.tiles_m + m)) % 4;
  return {image, m * kClusterM + rank / kClusterN, n * kClusterN + rank % kClusterN, phase};
}

// How outputs are stored, and where operands [m,n] lie likewise: Config::kStores.
enum class Stores {
  kTma,        // rows of channels, whose bytes are a multiple of 16
  kPlain,      // rows of any number of channels, by ordinary stores
  kPlanes,     // channels first: a plane of pixels for each, by ordinary stores
  kPlanesTma,  // the same by TMA, of eights of pixels: epilogue/sm90_plane_slices.cuh
};
constexpr bool is_in_planes(Stores s) { return s == Stores::kPlanes || s == Stores::kPlanesTma; }

// The pixels of a warpgroup's rows of the tile: which exist, and where they lie in the image.
struct LinearRows {
  int first, end;
  static UNISONO_DEVICE LinearRows of(const ConvGeometry& g, const Tile& tile, int tile_rows, int row) {
    return {tile.tile_m * tile_rows + row, g.rows};
  }
  UNISONO_DEVICE bool valid(int m) const { return first + m < end; }
  UNISONO_DEVICE bool all_valid(int count) const { return first + count <= end; }
  UNISONO_DEVICE int valid_of_16(int m) const { return larger(0, smaller(16, end - first - m)); }
  UNISONO_DEVICE int pixel(int m) const { return first + m; }
  UNISONO_DEVICE int store_x(int m) const { return first + m; }  // in the store map (channels, rows, 1, images)
  UNISONO_DEVICE int store_y(int) const { return 0; }
  UNISONO_DEVICE int store_image(int image) const { return image; }
};

struct Rows2d {
  int top, left, height, width;
  static UNISONO_DEVICE Rows2d of(const ConvGeometry& g, const Tile& tile, int tile_rows, int row) {
    const int line = divided(tile.tile_m, g.by_tiles_w);
    return {line * (tile_rows / 8) + row / 8, (tile.tile_m - line * g.tiles_w) * 8, g.height, g.width};
  }
  UNISONO_DEVICE bool valid(int m) const { return top + m / 8 < height && left + m % 8 < width; }
  UNISONO_DEVICE bool all_valid(int count) const { return top + count / 8 <= height && left + 8 <= width; }
  UNISONO_DEVICE int valid_of_16(int m) const {
    return larger(0, smaller(8, width - left)) * larger(0, smaller(2, height - top - m / 8));
  }
  UNISONO_DEVICE int pixel(int m) const { return (top + m / 8) * width + left + m % 8; }
  UNISONO_DEVICE int store_x(int) const { return left; }  // in the store map (channels, Q, P, images)
  UNISONO_DEVICE int store_y(int m) const { return top + m / 8; }
  UNISONO_DEVICE int store_image(int image) const { return image; }
};

// A two-dimensional tile of one plane of a volume: `top` counts the rows of that plane, and the store map (channels, Q,
// P, planes) has all planes of all volumes. Tiles beyond the last plane, of a cluster, have no pixels.
struct PlaneRows : Rows2d {
  int plane, planes;
  static UNISONO_DEVICE PlaneRows of(const ConvGeometry& g, const Tile& tile, int tile_rows, int row) {
    const int line = divided(tile.tile_m, g.by_tiles_w), lines = divide_up(g.plane_height, tile_rows / 8),
              plane = divided(line, g.by_plane_height), planes = g.height / g.plane_height;
    const bool exists = plane < planes;
    return {{exists ? (line - plane * lines) * (tile_rows / 8) + row / 8 : g.plane_height,
             (tile.tile_m - line * g.tiles_w) * 8, g.plane_height, g.width},
            exists ? plane : 0,
            planes};
  }
  UNISONO_DEVICE int pixel(int m) const { return plane * height * width + Rows2d::pixel(m); }
  UNISONO_DEVICE int store_image(int image) const { return image * planes + plane; }
};

// The windows of 2x2 pixels of an image, one after another: four rows each. Rows beyond the right and the lower border
// do not exist. tiles_w counts the windows across.
struct WindowRows {
  int first, height, width, across;
  Divisor by_across;
  static UNISONO_DEVICE WindowRows of(const ConvGeometry& g, const Tile& tile, int tile_rows, int row) {
    return {tile.tile_m * tile_rows + row, g.height, g.width, g.tiles_w, g.by_tiles_w};
  }
  UNISONO_DEVICE int line(int m) const { return 2 * divided((first + m) / 4, by_across) + (first + m) / 2 % 2; }
  UNISONO_DEVICE int column(int m) const {
    const int window = (first + m) / 4;
    return 2 * (window - divided(window, by_across) * across) + (first + m) % 2;
  }
  UNISONO_DEVICE bool valid(int m) const { return line(m) < height && column(m) < width; }
  UNISONO_DEVICE bool all_valid(int count) const {
    return height % 2 == 0 && width % 2 == 0 && first + count <= height * width;
  }
  UNISONO_DEVICE int valid_of_16(int m) const {
    int count = 0;
    for (int i = 0; i < 16; ++i) count += valid(m + i);
    return count;
  }
  UNISONO_DEVICE int pixel(int m) const { return line(m) * width + column(m); }
};

// Consecutive pixels whose store map knows image rows, (channels, Q, P, images): 16 pixels are then a part of an image
// row, or whole ones.
struct LineRows : LinearRows {
  int width;
  static UNISONO_DEVICE LineRows of(const ConvGeometry& g, const Tile& tile, int tile_rows, int row) {
    return {LinearRows::of(g, tile, tile_rows, row), g.width};
  }
  UNISONO_DEVICE int store_x(int m) const { return (first + m) % width; }
  UNISONO_DEVICE int store_y(int m) const { return (first + m) / width; }
};

// A two-dimensional tile of the pixels of one phase: pixel (y, x) of them is (2 y + phase / 2, 2 x + phase % 2) of the
// output.
struct PhaseRows : Rows2d {
  int phase, output_width;
  static UNISONO_DEVICE PhaseRows of(const ConvGeometry& g, const Tile& tile, int tile_rows, int row) {
    PhaseRows rows{Rows2d::of(g, tile, tile_rows, row), tile.phase, g.width};
    rows.height = (g.height + 1 - tile.phase / 2) / 2, rows.width = (g.width + 1 - tile.phase % 2) / 2;
    return rows;
  }
  UNISONO_DEVICE int pixel(int m) const {
    return (2 * (top + m / 8) + phase / 2) * output_width + 2 * (left + m % 8) + phase % 2;
  }
};

template <bool kTwoDimensional, bool kLines, bool kPhases, bool kVolumes>
struct RowsOf {
  using Type = LinearRows;
};
template <>
struct RowsOf<false, true, false, false> {
  using Type = LineRows;
};
template <>
struct RowsOf<true, false, false, false> {
  using Type = Rows2d;
};
template <>
struct RowsOf<true, false, true, false> {
  using Type = PhaseRows;
};
template <>
struct RowsOf<true, false, false, true> {
  using Type = PlaneRows;
};
template <class Config>
using RowsIn = typename RowsOf<Config::kTwoDimensional, Config::Resample::kUpsampled && !Config::kTwoDimensional,
                               Config::Operands::kPhases, Config::Operands::kVolumes>::Type;

// Position in a ring of kStages buffers; `block` counts everything that the ring has carried so far.
template <int kStages>
struct RingPosition {
  u32 stage, parity;
  UNISONO_DEVICE explicit RingPosition(u32 block) : stage(block % kStages), parity(block / kStages & 1) {}
  UNISONO_DEVICE void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

}  // namespace unisono
