// kernels/unisono/ptx/sm90_barrier.cuh for the emulator.
#pragma once
#include "unisono/ptx/shared.cuh"

namespace unisono {

#define UNISONO_DYNAMIC_SHARED(name) u8* const name = unisono_emulator::dynamic_shared()

struct Watchdog {  // deadlocks are seen by the emulator
  void tick() {}
};

#ifdef UNISONO_WATCHDOG
constexpr bool kChecked = true;
inline void end_with_workspace_in_use(u32*) { unisono_emulator::fail("the workspace is in use by another launch"); }
#else
constexpr bool kChecked = false;
inline void end_with_workspace_in_use(u32*) {}
#endif

inline void delay_point() {
  if (unisono_emulator::ticks() % 4 == 0) unisono_emulator::delay();
}

struct Trace {
  u64* timeline;
  int tile = 0;
  void mark(int) const {}
};

inline void mbarrier_init(u32 barrier, u32 arrivals) { unisono_emulator::mbarrier_init(barrier, arrivals); }
inline void mbarrier_arrive(u32 barrier) { unisono_emulator::mbarrier_arrive(barrier, 0); }
inline void mbarrier_arrive_cluster(u32 barrier, u32 rank) { unisono_emulator::mbarrier_arrive_cluster(barrier, rank); }
inline void mbarrier_arrive_expect(u32 barrier, u32 bytes) { unisono_emulator::mbarrier_arrive(barrier, int(bytes)); }
inline bool mbarrier_try_wait(u32 barrier, u32 parity) { return unisono_emulator::mbarrier_try_wait(barrier, parity); }
inline void mbarrier_wait(u32 barrier, u32 parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}
inline void mbarrier_init_fence() {}

inline void named_barrier(int id, int threads) {
  __syncwarp();
  unisono_emulator::sync_named(id, threads);
}
inline void fence_async_shared() {}
inline void fence_async_global() {}
inline u32 cluster_rank() { return unisono_emulator::cluster_rank(); }
inline void cluster_sync() { unisono_emulator::sync_cluster(); }
inline void await_launches_ahead() { unisono_emulator::await_launches_ahead(); }
inline void admit_next_launch() {}
template <int kRegisters>
void register_release() {}
template <int kRegisters>
void register_acquire() {}

}  // namespace unisono
