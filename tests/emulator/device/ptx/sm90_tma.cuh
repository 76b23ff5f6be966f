// kernels/unisono/ptx/sm90_tma.cuh for the emulator.
#pragma once
#include "unisono/params/params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono {

inline void tma_prefetch(const TensorMap&) {}
inline void tma_prefetch_4d(const TensorMap&, int, int, int, int) {}

struct Im2colCoordinates {
  int c, w, h, n;
  u16 offset_w, offset_h;
};

inline void tma_load_im2col_multicast(u32 destination, const TensorMap& map, u32 barrier, Im2colCoordinates at,
                                      u16 ctas) {
  unisono_emulator::copy_load(destination, &map, barrier, {{at.c, at.w, at.h, at.n, 0}, {at.offset_w, at.offset_h}},
                              ctas);
}
inline void tma_load_im2col(u32 destination, const TensorMap& map, u32 barrier, Im2colCoordinates at) {
  tma_load_im2col_multicast(destination, map, barrier, at, 0);
}

struct VolumeCoordinates {
  int c, w, h, d, n;
  u16 offset_w, offset_h, offset_d;
};

inline void tma_load_im2col_multicast(u32 destination, const TensorMap& map, u32 barrier, VolumeCoordinates at,
                                      u16 ctas) {
  unisono_emulator::copy_load(destination, &map, barrier,
                              {{at.c, at.w, at.h, at.d, at.n}, {at.offset_w, at.offset_h, at.offset_d}}, ctas);
}
inline void tma_load_im2col(u32 destination, const TensorMap& map, u32 barrier, VolumeCoordinates at) {
  tma_load_im2col_multicast(destination, map, barrier, at, 0);
}
inline void tma_load_3d_multicast(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, u16 ctas) {
  unisono_emulator::copy_load(destination, &map, barrier, {{x, y, z, 0, 0}, {}}, ctas);
}
inline void tma_load_3d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z) {
  tma_load_3d_multicast(destination, map, barrier, x, y, z, 0);
}
inline void tma_load_4d_multicast(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w,
                                  u16 ctas) {
  unisono_emulator::copy_load(destination, &map, barrier, {{x, y, z, w, 0}, {}}, ctas);
}
inline void tma_load_4d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
  tma_load_4d_multicast(destination, map, barrier, x, y, z, w, 0);
}
inline void tma_load_5d_multicast(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w, int v,
                                  u16 ctas) {
  unisono_emulator::copy_load(destination, &map, barrier, {{x, y, z, w, v}, {}}, ctas);
}
inline void tma_load_5d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w, int v) {
  tma_load_5d_multicast(destination, map, barrier, x, y, z, w, v, 0);
}
inline void tma_store_4d(const TensorMap& map, u32 source, int x, int y, int z, int w) {
  unisono_emulator::copy_store(&map, source, {{x, y, z, w, 0}, {}});
}
// L2 is not emulated.
inline constexpr u64 kEvictFirst = 0, kEvictLast = 0;
inline void tma_load_im2col(u32 destination, const TensorMap& map, u32 barrier, Im2colCoordinates at, u64) {
  tma_load_im2col(destination, map, barrier, at);
}
inline void tma_load_4d(u32 destination, const TensorMap& map, u32 barrier, int x, int y, int z, int w, u64) {
  tma_load_4d(destination, map, barrier, x, y, z, w);
}
inline void tma_store_4d(const TensorMap& map, u32 source, int x, int y, int z, int w, u64) {
  tma_store_4d(map, source, x, y, z, w);
}
inline void bulk_store(void* to, u32 source, u32 bytes, u64) { unisono_emulator::bulk_store(to, source, bytes); }
inline void bulk_load(u32 destination, const void* from, u32 barrier, u32 bytes, u64) {
  unisono_emulator::bulk_load(destination, from, barrier, bytes);
}
inline void bulk_store(void* to, u32 source, u32 bytes) { unisono_emulator::bulk_store(to, source, bytes); }
inline void bulk_load(u32 destination, const void* from, u32 barrier, u32 bytes) {
  unisono_emulator::bulk_load(destination, from, barrier, bytes);
}
inline void tma_store_commit() { unisono_emulator::copy_commit(); }
template <int kPending>
void tma_store_wait_read() {
  unisono_emulator::copy_wait(kPending);
}
template <int kPending>
void tma_store_wait() {
  unisono_emulator::copy_wait(kPending);
}

}  // namespace unisono
