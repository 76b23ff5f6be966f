#pragma once
// Ahead of every source that is compiled for the emulator: CUDA's keywords, types and functions, as far as the kernels
// use them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "emulator/machine.hpp"

#define UNISONO_EMULATED
#define __device__
#define __global__ __attribute__((visibility("default")))
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct float2 {
  alignas(8) float x;
  float y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};

#define threadIdx (::unisono_emulator::thread_index())
#define blockIdx (::unisono_emulator::cta_index())
#define blockDim (::unisono_emulator::cta_extent())
#define gridDim (::unisono_emulator::grid_extent())

namespace unisono_emulator {
template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  return std::memcpy(&to, &from, sizeof to), to;
}
}  // namespace unisono_emulator

inline void __syncthreads() { unisono_emulator::sync_cta(); }
inline void __syncwarp() { unisono_emulator::sync_warp(); }
inline void __threadfence() {}
inline void __nanosleep(unsigned) { unisono_emulator::pause(); }

template <class T>
T __ldg(const T* address) {
  return *address;
}

inline float __uint_as_float(unsigned x) { return unisono_emulator::bits_as<float>(x); }
// Byte i of the result is the one that digit i of `selector` names, of y:x.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
inline unsigned __float_as_uint(float x) { return unisono_emulator::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return unisono_emulator::bits_as<float>(x); }
inline int __float_as_int(float x) { return unisono_emulator::bits_as<int>(x); }
inline double __longlong_as_double(long long x) { return unisono_emulator::bits_as<double>(x); }
inline long long __double_as_longlong(double x) { return unisono_emulator::bits_as<long long>(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __saturatef(float x) { return x > 0.f ? x < 1.f ? x : 1.f : 0.f; }  // 0 for NaN
inline float rsqrtf(float x) { return 1.f / std::sqrt(x); }
inline int __float2int_rz(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.f) return std::numeric_limits<int>::max();
  return x <= -2147483648.f ? std::numeric_limits<int>::min() : static_cast<int>(x);
}

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return unisono_emulator::bits_as<T>(
      unisono_emulator::shuffle(unisono_emulator::bits_as<std::uint32_t>(value), lane & 31));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % 32) ^ bits);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int distance) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return __shfl_sync(mask, value, lane + distance < 32 ? lane + distance : lane);
}

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, *address + value);
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, std::max(*address, value));
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return std::exchange(*address, *address == expected ? value : *address);
}
inline long long clock64() { return static_cast<long long>(unisono_emulator::ticks()); }

namespace unisono_emulator {

// A kernel by its parameters' addresses, as the driver is handed them
template <auto kKernel, class Signature>
struct Caller;
template <auto kKernel, class... A>
struct Caller<kKernel, void (*)(A...)> {
  template <class T>
  static const T& at(void** parameters, std::size_t i) {
    return *static_cast<const T*>(parameters[i]);
  }
  template <std::size_t... i>
  static void apply(void** p, std::index_sequence<i...>) {
    kKernel(at<A>(p, i)...);
  }
  static void call(void** parameters) { apply(parameters, std::index_sequence_for<A...>()); }
  static constexpr std::size_t bytes[sizeof...(A) + 1] = {sizeof(A)..., 0};
};

}  // namespace unisono_emulator

#define UNISONO_EMULATED_KERNEL(name)                                                                  \
  extern "C" __attribute__((visibility("default")))                                                    \
  const unisono_emulator::Entry name##__entry{&unisono_emulator::Caller<&name, decltype(&name)>::call, \
                                              unisono_emulator::Caller<&name, decltype(&name)>::bytes};
