// Grids of any size over elements of any number: how kernels without tiles begin, and which elements a thread has.
#pragma once
#include "unisono/ptx/sm90_barrier.cuh"

namespace unisono {

// Before all else in such a kernel: launches are programmatically dependent.
UNISONO_DEVICE void begin() {
  await_launches_ahead();
  admit_next_launch();
}

UNISONO_DEVICE u64 first_index() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
UNISONO_DEVICE u64 index_step() { return u64(gridDim.x) * blockDim.x; }

}  // namespace unisono
