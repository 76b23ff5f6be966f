// TMA: im2col and tiled loads into shared memory, tiled stores out of it.
#pragma once
#include "unisono/params/params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono {

UNISONO_DEVICE void tma_prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// A run of output pixels that starts at input position (n, h, w), seen through filter tap (r, s), and a slice
// of channels from c. The offsets are in input pixels: tap times dilation.
struct Im2colCoordinates {
  int c, w, h, n;
  u16 offset_w, offset_h;
};

UNISONO_DEVICE void tma_load_im2col(u32 destination, const TensorMap& map, u32 barrier, Im2colCoordinates at) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(at.c), "r"(at.w), "r"(at.h), "r"(at.n), "h"(at.offset_w), "h"(at.offset_h)
      : "memory");
}

// Delivers to the same offsets (data and barrier) in every CTA whose bit is set in `ctas`.
UNISONO_DEVICE void tma_load_im2col_multicast(u32 destination, const TensorMap& map, u32 barrier, Im2colCoordinates at,
                                              u16 ctas) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(at.c), "r"(at.w), "r"(at.h), "r"(at.n), "h"(at.offset_w), "h"(at.offset_h), "h"(ctas)
      : "memory");
}

// The same of volumes: from input position (n, d, h, w), through filter tap (t, r, s).
struct VolumeCoordinates {
  int c, w, h, d, n;
  u16 offset_w, offset_h, offset_d;
};

UNISONO_DEVICE void tma_load_im2col(u32 destination, const TensorMap& map, u32 barrier, VolumeCoordinates at) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(at.c), "r"(at.w), "r"(at.h), "r"(at.d), "r"(at.n), "h"(at.offset_w),
      "h"(at.offset_h), "h"(at.offset_d)
      : "memory");
}

UNISONO_DEVICE void tma_load_im2col_multicast(u32 destination, const TensorMap& map, u32 barrier, VolumeCoordinates at,
                                              u16 ctas) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10}, %11;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(at.c), "r"(at.w), "r"(at.h), "r"(at.d), "r"(at.n), "h"(at.offset_w),
      "h"(at.offset_h), "h"(at.offset_d), "h"(ctas)
      : "memory");
}

// What L2 does with what an access touches: the words that createpolicy.fractional gives for all of it.
inline constexpr u64 kEvictFirst = 0x12f0000000000000, kEvictLast = 0x14f0000000000000;

UNISONO_DEVICE void tma_load_im2col(u32 destination, const TensorMap& map, u32 barrier, Im2colCoordinates at,
                                    u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(at.c), "r"(at.w), "r"(at.h), "r"(at.n), "h"(at.offset_w), "h"(at.offset_h),
      "l"(policy)
      : "memory");
}
UNISONO_DEVICE void tma_load_4d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w,
                                u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "l"(policy)
      : "memory");
}
UNISONO_DEVICE void tma_store_4d(const TensorMap& map, u32 source, int x, int y, int z, int w, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3, %4, %5}], [%1], "
      "%6;" ::"l"(&map),
      "r"(source), "r"(x), "r"(y), "r"(z), "r"(w), "l"(policy)
      : "memory");
}

UNISONO_DEVICE void tma_load_3d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

UNISONO_DEVICE void tma_load_3d_multicast(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z,
                                          u16 ctas) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(ctas)
      : "memory");
}

UNISONO_DEVICE void tma_load_4d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

UNISONO_DEVICE void tma_load_4d_multicast(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z,
                                          int w, u16 ctas) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "h"(ctas)
      : "memory");
}

UNISONO_DEVICE void tma_load_5d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

UNISONO_DEVICE void tma_load_5d_multicast(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z,
                                          int w, int v, u16 ctas) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "h"(ctas)
      : "memory");
}

// On its way to L2.
UNISONO_DEVICE void tma_prefetch_4d(const TensorMap& map, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(&map), "r"(x), "r"(y),
               "r"(z), "r"(w)
               : "memory");
}

// The part of the box outside the tensor is not written.
UNISONO_DEVICE void tma_store_4d(const TensorMap& map, u32 source, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(source), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}

// Bytes as they lie, a multiple of 16; with or without a hint.
UNISONO_DEVICE void bulk_store(void* to, u32 source, u32 bytes, u64 hint) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to), "r"(source),
               "r"(bytes), "l"(hint)
               : "memory");
}
UNISONO_DEVICE void bulk_load(u32 destination, const void* from, u32 barrier, u32 bytes, u64 hint) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(destination),
      "l"(from), "r"(bytes), "r"(barrier), "l"(hint)
      : "memory");
}
UNISONO_DEVICE void bulk_store(void* to, u32 source, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(source), "r"(bytes)
               : "memory");
}
UNISONO_DEVICE void bulk_load(u32 destination, const void* from, u32 barrier, u32 bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

UNISONO_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most kPending of this thread's groups still read shared memory.
template <int kPending>
UNISONO_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Until at most kPending of this thread's groups are not yet written.
template <int kPending>
UNISONO_DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace unisono
