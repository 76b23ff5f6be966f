// Where the first tap of a tile's row is, in a table, and which of its other taps are in the image. A row's `copies`
// are those from the image's first element to that tap. Rows that do not exist lie far above the image.
#pragma once
#include "unisono/sm80/taps.cuh"

namespace unisono {

constexpr int kFarAbove = -32768, kBeyondTaps = 65536;

// An image row and a pixel, 16 bits each.
UNISONO_DEVICE int packed_place(int h, int w) { return int(u32(h) << 16 | (u32(w) & 0xffffu)); }
UNISONO_DEVICE int line_of(int place) { return place >> 16; }
UNISONO_DEVICE int column_of(int place) { return int(short(place & 0xffff)); }

struct ImageSight {
  struct Row {
    int copies, place;
  };
  struct Tap {
    int below, beside, elements;  // from the first tap on
  };
  int height, width, rows;  // of the image; of taps
  int down, right, pitch;   // input pixels from tap to tap; elements from pixel to pixel

  static UNISONO_DEVICE Row nowhere() { return {0, packed_place(kFarAbove, 0)}; }
  template <class Taps>
  static UNISONO_DEVICE Row row_of(const Sm80ConvParams& f, int p, int q, const Taps& taps, i64& element) {
    const int h = taps.top_of(p), w = taps.left_of(q);
    element += (i64(h) * f.in_width + w) * f.image_pitch;
    return {0, packed_place(h, w)};
  }
  template <class Taps>
  UNISONO_DEVICE void open(const Sm80ConvParams& f, const Taps& taps) {
    height = f.in_height, width = f.in_width, rows = taps.rows();
    down = taps.down(), right = taps.right(), pitch = int(f.image_pitch);
  }
  UNISONO_DEVICE Tap tap_of(const TapOfK& k) const {
    const int below = k.row * down, beside = k.column * right;
    return {k.row < rows ? below : kBeyondTaps, beside, (below * width + beside) * pitch};
  }
  UNISONO_DEVICE bool has(const Row& row, const Tap& tap) const {
    return u32(line_of(row.place) + tap.below) < u32(height) && u32(column_of(row.place) + tap.beside) < u32(width);
  }
};

// Volumes: the planes of one are an image's, one below the other, and so are those of a filter (tile/layout.cuh).
struct VolumeSight {
  struct Row {
    int copies, place, plane, unused;
  };
  struct Tap {
    int deeper, below, beside, elements;
  };
  int depth, height, width, rows, rows_of_plane;  // of the volume; of taps
  Divisor by_rows_of_plane;
  int deep, down, right, pitch;

  static UNISONO_DEVICE Row nowhere() { return {0, packed_place(kFarAbove, 0), 0, 0}; }
  template <class Taps>
  static UNISONO_DEVICE Row row_of(const Sm80ConvParams& f, int p, int q, const Taps& taps, i64& element) {
    const ConvGeometry& g = f.tile.geometry;
    const int o = divided(p, g.by_plane_height), h = taps.top_of(p - o * g.plane_height), w = taps.left_of(q),
              d = o * g.stride_d - g.pad_d;
    element += ((i64(d) * f.in_height + h) * f.in_width + w) * f.image_pitch;
    return {0, packed_place(h, w), d, 0};
  }
  template <class Taps>
  UNISONO_DEVICE void open(const Sm80ConvParams& f, const Taps& taps) {
    const ConvGeometry& g = f.tile.geometry;
    depth = f.in_depth, height = f.in_height, width = f.in_width, rows = taps.rows(), rows_of_plane = g.plane_taps_h;
    by_rows_of_plane = f.by_plane_taps_h;
    deep = g.dilation_d, down = taps.down(), right = taps.right(), pitch = int(f.image_pitch);
  }
  UNISONO_DEVICE Tap tap_of(const TapOfK& k) const {
    const int plane = divided(k.row, by_rows_of_plane), deeper = plane * deep,
              below = (k.row - plane * rows_of_plane) * down, beside = k.column * right;
    return {deeper, k.row < rows ? below : kBeyondTaps, beside, ((deeper * height + below) * width + beside) * pitch};
  }
  UNISONO_DEVICE bool has(const Row& row, const Tap& tap) const {
    return u32(row.plane + tap.deeper) < u32(depth) && u32(line_of(row.place) + tap.below) < u32(height) &&
           u32(column_of(row.place) + tap.beside) < u32(width);
  }
};

}  // namespace unisono
