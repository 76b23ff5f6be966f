// What the kernels of sm80/ read, and what lies where in their shared memory. Plain structs, the same to the host's
// compiler.
#pragma once
#include "unisono/params/fragment_layout.cuh"
#include "unisono/params/tile_params.cuh"

namespace unisono {

// By phases (sm80/taps.cuh), of either axis: from one of a phase's taps to the next, in the filter and back in the
// image.
struct PhaseParams {
  int step_h, step_w, back_h, back_w;
};

// Followed by the visitor's Params. Steps count elements. The k of a tile are taps and channels of a group as filters
// have them side by side: (R, S, C/G).
struct Sm80ConvParams {
  TileParams tile;
  const void *image, *filters[2];  // the second: of a dual product
  SplitParams split;
  i64 image_step, filter_step;  // from one image to the next; from one product's filter to the next, 0: all have one
  i64 image_pitch,
      filter_pitch;  // from pixel to pixel, or of (k, m) from k to k; from filter to filter, or from k to k; of (C, R,
                     // S, K/G) from channel to channel
  int depth, steps;  // k; k-steps of a tile
  int in_height, in_width;
  int group_channels, group_outputs, taps_w;  // C/G, K/G, S
  int in_depth;                               // planes of a volume, whose height is that of one
  Divisor by_group_channels, by_group_outputs, by_taps_w, by_plane_taps_h;
  PhaseParams phase;
};

namespace shared_layout {

// A CTA: the ring of stages, in whose place the epilogues of its warpgroups come afterwards, and a table of the tile's
// rows if the image is read pixel by pixel.
struct Sm80Cta {
  Bytes stage, stages, epilogue, warpgroups, table;
};
constexpr Bytes sm80_table_at(const Sm80Cta& s) {
  return up_to(most(s.stage * s.stages, up_to(s.epilogue, 16) * s.warpgroups), 128);
}
constexpr Bytes sm80_cta_bytes(const Sm80Cta& s) { return sm80_table_at(s) + s.table; }

}  // namespace shared_layout

}  // namespace unisono
