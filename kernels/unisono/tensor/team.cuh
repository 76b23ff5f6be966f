// Teams of threads that make one result: a thread, a warp or a CTA of 256.
#pragma once
#include "unisono/ptx/grid.cuh"

namespace unisono::tensor {

constexpr int kTeamThreads = 256;  // of a CTA, for a team of any size

template <int kThreads>
struct Team {
  static_assert(kThreads == 1 || kThreads == 32 || kThreads == kTeamThreads, "a thread, a warp or a CTA");
  static UNISONO_DEVICE u64 first() { return first_index() / kThreads; }
  static UNISONO_DEVICE u64 step() { return index_step() / kThreads; }
  static UNISONO_DEVICE u32 lane() { return threadIdx.x % kThreads; }
  static UNISONO_DEVICE void sync() {
    if constexpr (kThreads == 32) __syncwarp();
    if constexpr (kThreads == kTeamThreads) __syncthreads();
  }
};

// The states of a team's threads in its first one, joined in a fixed order.
template <int kThreads, class Fold>
UNISONO_DEVICE void join_team(typename Fold::State& own) {
  if constexpr (kThreads > 1) {
    __shared__ typename Fold::State states[kTeamThreads];
    states[threadIdx.x] = own;
    Team<kThreads>::sync();
    for (u32 half = kThreads / 2; half > 0; half /= 2) {
      if (Team<kThreads>::lane() < half) Fold::join(states[threadIdx.x], states[threadIdx.x + half]);
      Team<kThreads>::sync();
    }
    own = states[threadIdx.x];
    Team<kThreads>::sync();
  }
}

}  // namespace unisono::tensor
