// What the host function of a kernel of CUTLASS's is given. Fields of eight bytes each follow it, as the visitors read
// them. Plain structs, the same to the host's compiler.
#pragma once
#include "unisono/params/params.cuh"

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

}  // namespace unisono
