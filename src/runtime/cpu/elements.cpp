#include "runtime/cpu/elements.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "support/float_convert.hpp"

namespace unisono::cpu {

namespace {

bool is_f32(DType t) { return t == DType::f32 || t == DType::tf32; }

// Elements that a strided run is gathered or scattered by
constexpr std::size_t chunk = 256;

}  // namespace

void load_floats(const VectorUnit& unit, const void* from, DType t, std::int64_t stride, std::size_t count, float* to) {
  if (stride == 1 && is_f32(t)) {
    std::memcpy(to, from, count * sizeof(float));
  } else if (is_f32(t)) {
    const auto* f = static_cast<const float*>(from);
    for (std::size_t i = 0; i < count; ++i) to[i] = f[static_cast<std::int64_t>(i) * stride];
  } else if (t == DType::bf16 || t == DType::f16) {
    const auto decode = t == DType::bf16 ? unit.load_bf16 : unit.load_f16;
    const auto* f = static_cast<const std::uint16_t*>(from);
    if (stride == 1) return decode(f, to, count);
    std::array<std::uint16_t, chunk> run{};
    for (std::size_t i = 0; i < count; i += chunk) {
      const std::size_t n = std::min(chunk, count - i);
      for (std::size_t k = 0; k < n; ++k) run[k] = f[static_cast<std::int64_t>(i + k) * stride];
      decode(run.data(), to + i, n);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(support::load(from, static_cast<std::int64_t>(i) * stride, t));
  }
}

void load_doubles(const void* from, DType t, std::int64_t stride, std::size_t count, double* to) {
  if (stride == 1 && t == DType::f64) {
    std::memcpy(to, from, count * sizeof(double));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) to[i] = support::load(from, static_cast<std::int64_t>(i) * stride, t);
}

void store_floats(const VectorUnit& unit, const float* from, std::size_t count, void* to, DType t,
                  std::int64_t stride) {
  if (t == DType::f32 && stride == 1) {
    std::memcpy(to, from, count * sizeof(float));
  } else if (t == DType::f32) {
    auto* d = static_cast<float*>(to);
    for (std::size_t i = 0; i < count; ++i) d[static_cast<std::int64_t>(i) * stride] = from[i];
  } else if (t == DType::bf16 || t == DType::f16) {
    const auto encode = t == DType::bf16 ? unit.store_bf16 : unit.store_f16;
    auto* d = static_cast<std::uint16_t*>(to);
    if (stride == 1) return encode(from, d, count);
    std::array<std::uint16_t, chunk> run{};
    for (std::size_t i = 0; i < count; i += chunk) {
      const std::size_t n = std::min(chunk, count - i);
      encode(from + i, run.data(), n);
      for (std::size_t k = 0; k < n; ++k) d[static_cast<std::int64_t>(i + k) * stride] = run[k];
    }
  } else {
    for (std::size_t i = 0; i < count; ++i)
      support::store(to, static_cast<std::int64_t>(i) * stride, t, static_cast<double>(from[i]));
  }
}

void store_doubles(const double* from, std::size_t count, void* to, DType t, std::int64_t stride) {
  for (std::size_t i = 0; i < count; ++i) support::store(to, static_cast<std::int64_t>(i) * stride, t, from[i]);
}

}  // namespace unisono::cpu
