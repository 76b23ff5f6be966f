#pragma once
// Tensors of a program that checks an emitted kernel: on the host as float64, on the GPU in their own type.

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <limits>
#include <vector>

namespace unisono::emitted {

enum class Type { bf16, f16, tf32, f32, i32, boolean };

inline size_t size_of(Type t) { return t == Type::bf16 || t == Type::f16 ? 2 : t == Type::boolean ? 1 : 4; }

// To nearest, ties to even, for a type with that many bits after the leading one, and that least exponent
inline double rounded_to(double x, int bits, int least) {
  if (x == 0 || !(fabs(x) < INFINITY)) return x;
  int exponent = 0;
  frexp(x, &exponent);  // x = 0.1… · 2^exponent
  const double unit = ldexp(1, (exponent - 1 < least ? least : exponent - 1) - bits);
  return nearbyint(x / unit) * unit;
}

inline double rounded(double x, Type t) {
  switch (t) {
    case Type::bf16: x = rounded_to(x, 7, -126); return fabs(x) < 0x1p128 ? x : copysign(INFINITY, x);
    case Type::f16: x = rounded_to(x, 10, -14); return fabs(x) < 0x1p16 ? x : copysign(INFINITY, x);
    case Type::tf32: return rounded_to(x, 10, -126);
    case Type::f32: return double(float(x));
    case Type::i32: return x != x ? 0 : x >= 0x1p31 ? 0x1p31 - 1 : x <= -0x1p31 ? -0x1p31 : trunc(x);
    case Type::boolean: return x != 0;
  }
  return x;
}

// How far rounding to the type may take a value, relative to it
inline double roundoff(Type t) {
  return t == Type::bf16 ? 0x1p-8 : t == Type::f16 ? 0x1p-11 : t == Type::f32 || t == Type::tf32 ? 0x1p-24 : 0;
}

inline double read(const unsigned char* from, Type t) {
  uint32_t word = 0;
  memcpy(&word, from, size_of(t));
  if (t == Type::i32) return int32_t(word);
  if (t == Type::boolean) return word;
  if (t == Type::f16) {
    const int exponent = word >> 10 & 31, digits = word & 1023;
    const double size = exponent == 31  ? (digits != 0 ? NAN : INFINITY)
                        : exponent == 0 ? ldexp(digits, -24)
                                        : ldexp(1024 + digits, exponent - 25);
    return word >> 15 != 0 ? -size : size;
  }
  if (t == Type::bf16) word <<= 16;
  float x = 0;
  memcpy(&x, &word, 4);
  return x;
}

// A value that the type has
inline void write(unsigned char* to, double x, Type t) {
  uint32_t word = 0;
  const float single = float(x);
  memcpy(&word, &single, 4);
  if (t == Type::bf16) word >>= 16;
  if (t == Type::f16) {
    int exponent = 0;
    const double digits = frexp(fabs(x), &exponent) * 2048;  // 1024 to 2047
    word = (signbit(x) ? 0x8000 : 0) |
           (fabs(x) < 0x1p-14 ? uint32_t(fabs(x) * 0x1p24) : uint32_t(exponent + 14) << 10 | (uint32_t(digits) & 1023));
  }
  if (t == Type::i32) word = uint32_t(int32_t(x));
  if (t == Type::boolean) word = x != 0;
  memcpy(to, &word, size_of(t));
}

inline void succeed(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  exit(2);
}

inline double draw() {  // -1 to 1
  static uint64_t state = 20261;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return double(state >> 40) / double(1 << 23) - 1;
}

// On the GPU, between two guards
struct Tensor {
  Type type;
  long long count;
  unsigned char* memory = nullptr;
  std::vector<double> values = {};  // of an operand

  static constexpr size_t kGuard = 256;
  size_t bytes() const { return size_t(count) * size_of(type); }
  unsigned char* data() const { return memory + kGuard; }
  void make() { succeed(cudaMalloc(reinterpret_cast<void**>(&memory), bytes() + 2 * kGuard), "cudaMalloc"); }

  // What the kernel leaves as it is, is wrong: NaN, -1, 255
  void poison() { succeed(cudaMemset(memory, 0xff, bytes() + 2 * kGuard), "cudaMemset"); }
  std::vector<unsigned char> all() const {
    std::vector<unsigned char> host(bytes() + 2 * kGuard);
    succeed(cudaMemcpy(host.data(), memory, host.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }
};

inline bool has_guards(const std::vector<unsigned char>& all) {
  for (size_t i = 0; i < Tensor::kGuard; ++i)
    if (all[i] != 0xff || all[all.size() - 1 - i] != 0xff) return false;
  return true;
}

// Random: truth values, labels from 0 to `limit`, numbers from -1 to 1
inline Tensor random_tensor(Type type, long long count, long long limit) {
  Tensor t{type, count};
  std::vector<unsigned char> host(t.bytes() + 1);
  for (long long i = 0; i < count; ++i) {
    const double x = draw();
    const double value = type == Type::boolean ? double(x > 0)
                         : type == Type::i32   ? floor((x + 1) / 2 * double(limit))
                                               : rounded(x, type == Type::tf32 ? Type::f32 : type);
    t.values.push_back(value);
    write(host.data() + size_t(i) * size_of(type), value, type);
  }
  t.make();
  succeed(cudaMemcpy(t.data(), host.data(), t.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  return t;
}

inline Tensor output_tensor(Type type, long long count) {
  Tensor t{type, count};
  t.make();
  return t;
}

}  // namespace unisono::emitted
