// What the host function of a kernel of CUTLASS's is given. Fields of eight bytes each follow it, as the visitors read
// them. Plain structs, the same to the host's compiler.
#pragma once
#include "unisono/params/words.cuh"

namespace unisono {

// A (batch, m, k) or (batch, k, m) times B (batch, k, n) or (batch, n, k). Pitches count elements from row to row of
// memory, steps from matrix to matrix.
struct CutlassEvtParams {
  i64 m, n, k, batch;
  i64 pitch_a, pitch_b, pitch_d;
  i64 step_a, step_b;
  i64 sms;  // that the launch may occupy
  const void *a, *b;
  void *d, *side;  // the main store, and the second one
  void* workspace;
  i64 workspace_bytes;
};

// What a convolution's parameter has besides, after the struct above: the images (N, H, W, C), the filter (K, R, S, C)
// and how it moves. Then m = N·P·Q rows, n = K, k = C, batch = 1; pitch_a counts elements from pixel to pixel.
struct CutlassEvtWindow {
  int images, h, w, p, q, r, s;
  int stride_h, stride_w;
  int pad_top, pad_left, pad_bottom, pad_right;
  int dilation_h, dilation_w;
  int unused;
};

// What a dual product's parameter has besides, there: the second B, which lies as the first does.
struct CutlassEvtSecond {
  const void* b;
};

// What a grouped product's has besides, there: the rows of each group. Then m is their sum, batch = 1, and step_b
// counts from one group's B to the next. The tables that its kernel reads have an entry of 16 bytes a group.
constexpr int kMostGroups = 256, kGroupTableBytes = 16 * kMostGroups;
struct CutlassEvtGroups {
  int count, unused;
  int rows[kMostGroups];
};

}  // namespace unisono
