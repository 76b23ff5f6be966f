// Synchronisation: mbarriers, named barriers, fences, clusters, register reallocation.
#pragma once
#include "unisono/ptx/shared.cuh"

namespace unisono {

// Declares all of the CTA's dynamic shared memory, aligned to 16 bytes only.
#define UNISONO_DYNAMIC_SHARED(name) extern __shared__ u8 name[]

// Every spin loop ticks one of these. Built with UNISONO_WATCHDOG, a wait of more than 2^32 to 2^33 cycles (some
// seconds) ends the launch with an illegal address: a deadlock is an error and not a hang. Not by a trap instruction,
// with which the assembler ignores setmaxnreg, nor by printf, a call, with which it serialises wgmma.
struct Watchdog {
#ifdef UNISONO_WATCHDOG
  static UNISONO_DEVICE u32 epoch() {
    u32 high;
    asm volatile("mov.u32 %0, %%clock_hi;" : "=r"(high));
    return high;
  }
  u32 start;
  UNISONO_DEVICE Watchdog() : start(epoch()) {}
  UNISONO_DEVICE void tick() {
    if (epoch() - start > 1) asm volatile("st.global.u32 [%0], %1;" ::"l"(u64(16)), "r"(start) : "memory");
  }
#else
  UNISONO_DEVICE void tick() {}
#endif
};

// Built with UNISONO_WATCHDOG, a launch also ends if another one uses its workspace at the same time: by a misaligned
// address, so that the driver's error differs from that of a wait that lasts too long. The address is mapped; otherwise
// the GPU might report that first.
#ifdef UNISONO_WATCHDOG
constexpr bool kChecked = true;
UNISONO_DEVICE void end_with_workspace_in_use(u32* mapped) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(reinterpret_cast<u64>(mapped) + 2), "r"(0) : "memory");
}
#else
constexpr bool kChecked = false;
UNISONO_DEVICE void end_with_workspace_in_use(u32*) {}
#endif

// Built with UNISONO_DELAYS, some threads sleep up to 16 us here: before each publication, wait and store, so that
// tests meet interleavings which an idle machine never shows.
UNISONO_DEVICE void delay_point() {
#ifdef UNISONO_DELAYS
  u32 clock;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
  const u32 hash = (clock ^ blockIdx.x * 0x9e3779b9u ^ threadIdx.x * 0x85ebca6bu) * 0xc2b2ae35u;
  if (hash >> 29 == 0) __nanosleep(hash >> 8 & 0x3fff);
#endif
}

// With UNISONO_TRACE, warpgroups 1 to 4 write the clock at marked events: timeline[CTA][warpgroup - 1][tile][event].
constexpr int kTraceTiles = 64, kTraceEvents = 16;
#ifdef UNISONO_TRACE
struct Trace {
  u64* timeline;
  int tile = 0;
  UNISONO_DEVICE void mark(int event) const {
    u64 cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    if (threadIdx.x % 128 == 0 && tile < kTraceTiles)
      timeline[((blockIdx.x * 4 + threadIdx.x / 128 - 1) * kTraceTiles + tile) * kTraceEvents + event] = cycles;
  }
};
#else
struct Trace {
  u64* timeline;
  int tile = 0;
  UNISONO_DEVICE void mark(int) const {}
};
#endif

// --- mbarriers, by shared-memory address -----------------------------------------------------------------

UNISONO_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

UNISONO_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the barrier of the same offset in CTA `rank` of the cluster. Without .release.cluster: that puts a
// memory barrier into the main loop; what is released here was read by the tensor cores, not written.
UNISONO_DEVICE void mbarrier_arrive_cluster(u32 barrier, u32 rank) {
  asm volatile(
      "{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

UNISONO_DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Without a suspend-time hint: with one of 10 ms, waits took longer to end and a CTA 10 to 15 % more time.
UNISONO_DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done;
}

UNISONO_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  Watchdog watchdog;
  while (!mbarrier_try_wait(barrier, parity)) watchdog.tick();
}

// Makes initialised barriers visible to TMA and to the other CTAs of the cluster.
UNISONO_DEVICE void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// --- warpgroups, proxies, clusters -----------------------------------------------------------------------

// By whole warps, reconverged: bar is an aligned instruction.
UNISONO_DEVICE void named_barrier(int id, int threads) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Ordinary writes to shared (or global) memory become visible to TMA and the tensor cores.
UNISONO_DEVICE void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
UNISONO_DEVICE void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

UNISONO_DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

UNISONO_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Programmatic dependent launch. CTAs may start while the launches ahead in the stream still run; nothing in global
// memory is read or written before this wait, after which those have ended and all that they wrote is visible. The one
// exception are filters that no launch writes (FiltersAhead in tile/layout.cuh).
// Architectures before sm_90 have none: there the launches ahead have ended when a kernel starts.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
UNISONO_DEVICE void await_launches_ahead() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Once every CTA has said so, the next launch's CTAs may start wherever there is room.
UNISONO_DEVICE void admit_next_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#else
UNISONO_DEVICE void await_launches_ahead() {}
UNISONO_DEVICE void admit_next_launch() {}
#endif

// Registers move between warpgroups; the counts are multiples of 8.
template <int kRegisters>
UNISONO_DEVICE void register_release() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
UNISONO_DEVICE void register_acquire() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace unisono
