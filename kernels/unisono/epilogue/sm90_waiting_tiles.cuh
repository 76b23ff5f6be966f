// Where the tiles of a normalisation wait that do not wait in registers, and how their values leave: the part that the
// second pass asks. A tile waits in its warpgroup's staging buffers, as subtiles of 16 rows x kSlice channels, kSteps a
// warp; spilled, it waits in memory, and is brought back into the buffers step by step. All of it by TMA, or by bulk
// copies to and from the workspace where rows of 8 pixels are no place to wait in.
#pragma once
#include "unisono/epilogue/results.cuh"
#include "unisono/epilogue/sm90_epilogue.cuh"
#include "unisono/epilogue/sm90_octet_stores.cuh"

namespace unisono {

template <class Config, class Visitor>
struct WaitingTiles {
  using First = Epilogue<Config, Visitor>;
  using At = typename First::At;
  using Results = ResultsOf<Visitor>;
  static constexpr int kPlanes = First::Held::kPlanes, kSlice = First::kSlice, kSlices = First::kSlices,
                       kSubtileBytes = First::kSliceBytes;
  static constexpr int kSteps = First::kStoresPerTile;  // subtiles of a tile and warp
  static constexpr int kBuffers = First::kStoreBuffers;
  static constexpr int kBarriers = 5 * First::kN * 4;  // after what the second pass has there
  // The main store has elements of 32 bits, which leave from registers; tiles wait in their place all the same.
  static constexpr bool kWideMain = Results::kResults > 0 && Results::kResults == Results::kDirect;
  // Results leave from registers, not by TMA.
  static constexpr bool kOctets = stores_octets<Config>(), kFromRegisters = kWideMain || kOctets;
  static constexpr bool kHints = Hints<Config>::kValue;
  // Lanes read subtiles by ordinary loads after their fence and store, if there are any: to pool them, or since results
  // leave from registers.
  static constexpr bool kReadsStored = First::Resample::kPooled || kFromRegisters;
  static_assert(!kOctets || kPlanes == 1, "tiles that wait in the workspace have 16 bits");

  const First& first;
  u8* const memory;  // a warpgroup's: at kBarriers those of its warps, kBuffers each
  u32 rounds = 0;    // that every subtile has been loaded

  // By one thread of the CTA, before a fence and a barrier of the CTA.
  static UNISONO_DEVICE void init_barriers(u8* memory) {
    for (int i = 0; i < 4 * kBuffers; ++i) mbarrier_init(shared_address(memory + kBarriers) + 8 * i, 1);
  }

  // Row block and slice of a step, and the subtile that holds them.
  static UNISONO_DEVICE int row_of(int step, int warp) { return 64 * (step % First::kBlocks) + 16 * warp; }
  static UNISONO_DEVICE int slice_of(int step) { return step / First::kBlocks * kSlice; }
  UNISONO_DEVICE u8* subtile_of(int step, int plane = 0) const {
    return first.staging(first.thread / 32) +
           (plane * kSteps + step % First::kBlocks * kSlices + step / First::kBlocks) * kSubtileBytes;
  }

  // The tile in the staging buffers goes to memory as it is, in one bulk group: where the main store's map puts it,
  // from where it is loaded back, or into the workspace.
  UNISONO_DEVICE void spill(const At& at) const {
    if ((first.thread & 31) != 0) return;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      const int m = row_of(step, first.thread / 32);
#pragma unroll
      for (int plane = 0; plane < kPlanes; ++plane) {
        delay_point();
        const u32 from = shared_address(subtile_of(step, plane));
        CacheHints<kHints>::call(
            kEvictLast, [&](auto... hint) { copy_out(Place(), from, at, step, m, spill_x(at, step, plane), hint...); });
      }
    }
    tma_store_commit();
  }

  // By every lane, before a barrier of the warp and of bring_back: its reads of the tile before come first.
  UNISONO_DEVICE void let_go() const {
    if (kReadsStored) fence_async_shared();
  }
  // By one lane: a tile that was spilled is on its way back. `later`: this warp has committed a bulk group since.
  UNISONO_DEVICE void bring_back(const At& at, bool later) const {
    delay_point();
    if (later && !kFromRegisters)
      tma_store_wait<1>();  // only what was stored after the tile is still under way
    else
      tma_store_wait<0>();     // the tile is written; results that leave from registers are no group after it
    tma_store_wait_read<0>();  // the buffers are free
    fence_async_global();
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) load(at, step, first.thread / 32);
  }
  // Until a step of it is there.
  UNISONO_DEVICE void await(int step) const { mbarrier_wait(loaded(step), rounds & 1); }

  // A step's results, which the warp has written in the place of the values, leave; all at once: those of a tile.
  UNISONO_DEVICE void store_step(const At& at, int step) const {
    if constexpr (!kFromRegisters) {
      fence_async_shared();
      __syncwarp();
      if ((first.thread & 31) == 0) store_subtile(at, step), tma_store_commit();
      first.store_pooled(subtile_of(step), at, row_of(step, first.thread / 32), slice_of(step));
    }
  }
  UNISONO_DEVICE void store(const At& at) const {
    if constexpr (!kFromRegisters) {
      fence_async_shared();
      __syncwarp();
      if ((first.thread & 31) == 0) {
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step) store_subtile(at, step);
        tma_store_commit();
      }
      if constexpr (First::Resample::kPooled) {
#pragma unroll 1
        for (int step = 0; step < kSteps; ++step)
          first.store_pooled(subtile_of(step), at, row_of(step, first.thread / 32), slice_of(step));
      }
    }
  }

 private:
  UNISONO_DEVICE u32 loaded(int i) const {
    return shared_address(memory + kBarriers) + (first.thread / 32 * kBuffers + i) * 8;
  }
  UNISONO_DEVICE void store_subtile(const At& at, int step) const {
    first.store_main(subtile_of(step), at, row_of(step, first.thread / 32), slice_of(step));
  }
  // Where a plane of a slice waits, in elements of 16 bits of the output's map. Each slice waits within its own
  // result's place, since slices of a tile are read back and finished one by one.
  static UNISONO_DEVICE int spill_x(const At& at, int step, int plane) {
    return (kWideMain ? 2 : 1) * (at.first_channel + slice_of(step)) + plane * kSlice;
  }
  // Where a subtile waits in the workspace, as it lies in shared memory: rows of 8 pixels are no place to wait in.
  UNISONO_DEVICE u8* spilled_at(const At& at, int step) const {
    const u64 tile =
        (u64(at.image) * first.norm.slots_per_image + at.slot) * first.tiles_across() + at.first_channel / First::kN;
    return static_cast<u8*>(converted_planes(first.further).spilled) +
           ((tile * 4 + first.thread / 32) * kSteps + step) * kSubtileBytes;
  }
  // Between a subtile and where it waits: in the workspace, or in the output.
  struct InWorkspace {};
  template <class... Hint>
  UNISONO_DEVICE void copy_out(InWorkspace, u32 from, const At& at, int step, int, int, Hint... hint) const {
    bulk_store(spilled_at(at, step), from, kSubtileBytes, hint...);
  }
  template <class... Hint>
  UNISONO_DEVICE void copy_in(InWorkspace, u32 to, const At& at, int step, int, int, Hint... hint) const {
    bulk_load(to, spilled_at(at, step), loaded(step), kSubtileBytes, hint...);
  }
  struct InOutput {};
  template <class... Hint>
  UNISONO_DEVICE void copy_out(InOutput, u32 from, const At& at, int, int m, int channel, Hint... hint) const {
    const SlicePlace to = First::slice_place(at, m, channel);
    tma_store_4d(first.output_map(at), from, to.x, to.y, to.z, to.image, hint...);
  }
  template <class... Hint>
  UNISONO_DEVICE void copy_in(InOutput, u32 to, const At& at, int step, int m, int channel, Hint... hint) const {
    const SlicePlace from = First::slice_place(at, m, channel);
    tma_load_4d(to, first.output_map(at), loaded(step), from.x, from.y, from.z, from.image, hint...);
  }
  using Place = Either<kOctets, InWorkspace, InOutput>;

  UNISONO_DEVICE void load(const At& at, int step, int warp) const {
    mbarrier_arrive_expect(loaded(step), kPlanes * kSubtileBytes);
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      const u32 to = shared_address(subtile_of(step, plane));
      CacheHints<kHints>::call(kEvictFirst, [&](auto... hint) {  // for the last time
        copy_in(Place(), to, at, step, row_of(step, warp), spill_x(at, step, plane), hint...);
      });
    }
  }
};

}  // namespace unisono
