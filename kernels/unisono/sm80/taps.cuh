// The taps of a filter as the pixels of a tile see them: how many, which input pixel each output pixel's first is at,
// and how far the next ones are. k counts taps and the channels of a group, (taps, C/G).
#pragma once
#include "unisono/params/sm80_conv_params.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

// A convolution's: all of its filter's.
struct FilterTaps {
  const Sm80ConvParams& f;
  static UNISONO_DEVICE FilterTaps of(const Sm80ConvParams& f, const Tile&) { return {f}; }
  UNISONO_DEVICE int rows() const { return f.tile.geometry.taps_h; }
  UNISONO_DEVICE int columns() const { return f.taps_w; }
  UNISONO_DEVICE int down() const { return f.tile.geometry.dilation_h; }
  UNISONO_DEVICE int right() const { return f.tile.geometry.dilation_w; }
  UNISONO_DEVICE int row_of(int tap) const { return divided(tap, f.by_taps_w); }
  UNISONO_DEVICE int top_of(int p) const { return p * f.tile.geometry.stride_h - f.tile.geometry.pad_h; }
  UNISONO_DEVICE int left_of(int q) const { return q * f.tile.geometry.stride_w - f.tile.geometry.pad_w; }
  UNISONO_DEVICE int steps(int) const { return f.steps; }
};

// A transposed convolution takes of input pixel (p + pad - tap * dilation) / stride, where that is whole. Output pixels
// that are a stride apart along both axes are a phase, and take the same taps: along an axis every step-th from the
// first on, each of them `back` input pixels before the last. A phase may have none.
struct PhaseAxis {
  int first, count;
  static UNISONO_DEVICE PhaseAxis of(int phase, int stride, int pad, int dilation, int taps, int step) {
    int first = 0;
    while (first < taps && (phase + pad - first * dilation) % stride != 0) ++first;
    return {first, first < taps ? (taps - first + step - 1) / step : 0};
  }
};

struct PhaseTaps {
  const Sm80ConvParams& f;
  PhaseAxis vertical, horizontal;
  static UNISONO_DEVICE PhaseTaps of(const Sm80ConvParams& f, const Tile& tile) {
    const ConvGeometry& g = f.tile.geometry;
    const int phase = tile.tile_m % (g.stride_h * g.stride_w), line = phase / g.stride_w;
    return {f, PhaseAxis::of(line, g.stride_h, g.pad_h, g.dilation_h, g.taps_h, f.phase.step_h),
            PhaseAxis::of(phase - line * g.stride_w, g.stride_w, g.pad_w, g.dilation_w, f.taps_w, f.phase.step_w)};
  }
  UNISONO_DEVICE bool any() const { return vertical.count > 0 && horizontal.count > 0; }
  UNISONO_DEVICE int rows() const { return any() ? vertical.count : 0; }
  UNISONO_DEVICE int columns() const { return any() ? horizontal.count : 1; }
  UNISONO_DEVICE int down() const { return -f.phase.back_h; }
  UNISONO_DEVICE int right() const { return -f.phase.back_w; }
  UNISONO_DEVICE int row_of(int tap) const { return tap / columns(); }
  UNISONO_DEVICE int top_of(int p) const {
    const ConvGeometry& g = f.tile.geometry;
    return (p + g.pad_h - vertical.first * g.dilation_h) / g.stride_h;
  }
  UNISONO_DEVICE int left_of(int q) const {
    const ConvGeometry& g = f.tile.geometry;
    return (q + g.pad_w - horizontal.first * g.dilation_w) / g.stride_w;
  }
  UNISONO_DEVICE int steps(int depth) const { return divide_up(rows() * columns() * f.group_channels, depth); }
};

// The pixels of a phase. Tiles of the same rows of all phases are neighbours: tile_m counts phases within rows. Every
// phase has as many rows as the largest, geometry.plane_height lines of tiles_w pixels of an image; of a smaller one
// some do not exist.
struct PhasedRows {
  const ConvGeometry& g;
  int first, end, down, right;  // its first pixel
  static UNISONO_DEVICE PhasedRows of(const ConvGeometry& g, const Tile& tile, int tile_rows, int row) {
    const int phases = g.stride_h * g.stride_w, region = tile.tile_m / phases, phase = tile.tile_m - region * phases,
              down = phase / g.stride_w;
    return {g, region * tile_rows + row, divided(g.rows, g.by_pixels) * g.plane_height * g.tiles_w, down,
            phase - down * g.stride_w};
  }
  struct Place {
    int image, p, q;  // of the output
  };
  UNISONO_DEVICE Place at(int m) const {
    const int lines = divided(first + m, g.by_tiles_w), column = first + m - lines * g.tiles_w,
              image = divided(lines, g.by_plane_height);
    return {image, (lines - image * g.plane_height) * g.stride_h + down, column * g.stride_w + right};
  }
  UNISONO_DEVICE bool valid(int m) const {
    const Place place = at(m);
    return first + m < end && place.p < g.height && place.q < g.width;
  }
  UNISONO_DEVICE bool all_valid(int count) const {
    return g.plane_height * g.stride_h == g.height && g.tiles_w * g.stride_w == g.width && first + count <= end;
  }
  UNISONO_DEVICE int valid_of_16(int m) const {
    int count = 0;
    for (int i = 0; i < 16; ++i) count += valid(m + i);
    return count;
  }
  UNISONO_DEVICE int pixel(int m) const {
    const Place place = at(m);
    return (place.image * g.height + place.p) * g.width + place.q;
  }
};

// A k: its tap, and the channel of that.
struct TapOfK {
  int channel, row, column;
  template <class Taps>
  static UNISONO_DEVICE TapOfK of(int k, const Sm80ConvParams& f, const Taps& taps) {
    const int tap = divided(k, f.by_group_channels), row = taps.row_of(tap);
    return {k - tap * f.group_channels, row, tap - row * taps.columns()};
  }
  UNISONO_DEVICE void advance(int by, int channels, int columns) {
    channel += by;
    while (channel >= channels) {
      channel -= channels;
      if (++column == columns) column = 0, ++row;
    }
  }
};

}  // namespace unisono
