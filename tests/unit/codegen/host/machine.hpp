#pragma once
/// Stand-ins on the host for what generated code includes, with the kernels' order of calls and no parallelism.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/float_convert.hpp"

// Words of CUDA
#define UNISONO_DEVICE
#define __global__
#define __device__ inline
#define __grid_constant__
#define __launch_bounds__(...)

struct float2 {
  float x, y;
};
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }

namespace host {

/// Stands in for ConvParams.
struct FixedParams {
  std::int64_t images, rows, channels, group_channels;
  const float* accumulators;
  std::uint16_t *output, *side;
};

using Entry = void (*)(const void* params);
extern const std::vector<Entry> entries;

struct Bf16 {
  static float load(const void* p, std::int64_t i) {
    return unisono::support::bf16_to_float(static_cast<const std::uint16_t*>(p)[i]);
  }
  static std::uint16_t pack(float x) { return unisono::support::float_to_bf16(x); }
};
struct F16 {
  static float load(const void* p, std::int64_t i) {
    return unisono::support::f16_to_float(static_cast<const std::uint16_t*>(p)[i]);
  }
  static std::uint16_t pack(float x) { return unisono::support::float_to_f16(x); }
};

template <class T>
auto load(const void* memory, std::int64_t i) {
  if constexpr (requires { T::load(memory, i); })
    return T::load(memory, i);
  else if constexpr (std::is_same_v<T, bool>)
    return static_cast<const std::uint8_t*>(memory)[i] != 0;
  else
    return static_cast<const T*>(memory)[i];
}
template <class T>
void store(void* memory, std::int64_t i, float x) {
  if constexpr (requires { T::pack(x); })
    static_cast<std::uint16_t*>(memory)[i] = T::pack(x);
  else
    static_cast<T*>(memory)[i] = x;
}
inline float as_column(float x) { return x; }
inline float as_column(int x) { return __int_as_float(x); }
inline float as_column(bool x) { return x ? 1.f : 0.f; }

template <class T>
struct TensorSource {
  const void* memory;
  float at(std::int64_t i) const { return as_column(load<T>(memory, i)); }
};

enum class SideStore { kNone, kBefore, kAfter };
enum class Norm { kNone, kResident, kStreamed, kRows };

// What configurations name beside that
enum class Stores { kTma, kPlain, kPlanes };
struct Images {};
struct AsItIs {};

// Functions in f64, rounded once
namespace math {
inline float rounded(double x) { return static_cast<float>(x); }
inline float max(float x, float y) { return std::isnan(x) ? x : std::isnan(y) ? y : x > y ? x : y; }
inline float min(float x, float y) { return std::isnan(x) ? x : std::isnan(y) ? y : x < y ? x : y; }
inline float clamp(float x, float lower, float upper) { return min(max(x, lower), upper); }
inline float abs(float x) { return std::fabs(x); }
inline float fma(float x, float y, float z) { return std::fma(x, y, z); }
inline float square(float x) { return x * x; }
inline float relu(float x) { return max(x, 0.f); }
inline float relu6(float x) { return clamp(x, 0.f, 6.f); }
inline float leaky_relu(float x, float slope) { return x > 0 ? x : slope * x; }
inline float leaky_relu_below_1(float x, float slope) { return leaky_relu(x, slope); }
inline float hardsigmoid(float x, float alpha, float beta) { return clamp(std::fma(x, alpha, beta), 0.f, 1.f); }
inline float hardswish(float x) { return x * clamp(std::fma(x, 1.f / 6, 0.5f), 0.f, 1.f); }
inline int wrapped(std::int64_t x) { return static_cast<int>(static_cast<std::uint32_t>(x)); }
inline int add(int x, int y) { return wrapped(std::int64_t{x} + y); }
inline int sub(int x, int y) { return wrapped(std::int64_t{x} - y); }
inline int mul(int x, int y) { return wrapped(std::int64_t{x} * y); }
inline int fma(int x, int y, int z) { return add(mul(x, y), z); }
inline int square(int x) { return mul(x, x); }
inline int neg(int x) { return sub(0, x); }
inline int abs(int x) { return x < 0 ? neg(x) : x; }
inline int max(int x, int y) { return x > y ? x : y; }
inline int min(int x, int y) { return x < y ? x : y; }
inline int relu(int x) { return max(x, 0); }
inline int to_i32(float x) { return static_cast<int>(unisono::support::round_to(x, unisono::DType::i32)); }
inline float round_bf16(float x) { return rounded(unisono::support::round_to(x, unisono::DType::bf16)); }
inline float round_f16(float x) { return rounded(unisono::support::round_to(x, unisono::DType::f16)); }
inline float round_tf32(float x) { return rounded(unisono::support::round_to(x, unisono::DType::tf32)); }
inline float pow(float x, float y) { return rounded(std::pow(double{x}, double{y})); }
inline float log1p(float x) { return rounded(std::log1p(double{x})); }

namespace accurate {
inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }
inline double plus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }
inline float reciprocal(float x) { return 1 / x; }
inline float div(float x, float y) { return x / y; }
inline float sqrt(float x) { return std::sqrt(x); }
inline float rsqrt(float x) { return rounded(1 / std::sqrt(double{x})); }
inline float exp(float x) { return rounded(std::exp(double{x})); }
inline float log(float x) { return rounded(std::log(double{x})); }
inline float tanh(float x) { return rounded(std::tanh(double{x})); }
inline float erf(float x) { return rounded(std::erf(double{x})); }
inline float sin(float x) { return rounded(std::sin(double{x})); }
inline float cos(float x) { return rounded(std::cos(double{x})); }
inline float sigmoid(float x) { return rounded(logistic(x)); }
inline float silu(float x) { return rounded(x * logistic(x)); }
inline float mish(float x) { return rounded(x * std::tanh(plus(x))); }
inline float gelu(float x) { return rounded(0.5 * x * std::erfc(-x * std::sqrt(0.5))); }
inline float gelu_tanh(float x) {
  return rounded(x * logistic(std::sqrt(8 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
inline float softplus(float x) { return rounded(plus(x)); }
inline float logsigmoid(float x) { return rounded(-plus(-double{x})); }
inline float elu(float x, float alpha) { return x > 0 ? x : rounded(alpha * std::expm1(double{x})); }
}  // namespace accurate
using namespace accurate;
inline float silu_of_half(float half) { return silu(2 * half); }
inline float sigmoid_of_half(float half) { return sigmoid(2 * half); }
}  // namespace math

/// Runs a visitor over a problem: columns once a channel and image, elements in order.
template <class Config, class Visitor>
struct ConvFprop {
  struct Params {
    FixedParams fixed;
    typename Visitor::Params visitor;
  };
  static constexpr int kThreads = 1;
  static constexpr bool kNormalises = Config::kNorm != Norm::kNone, kRows = Config::kNorm == Norm::kRows;
  static constexpr float kNone = std::numeric_limits<float>::quiet_NaN();  // nobody may read it
  static constexpr int kTensors = Visitor::kTensors, kFirst = Visitor::kTensorsBefore;

  struct Channel {
    std::vector<float> before, after;
    float mean = 0;
    float2 affine{1, 0};
  };

  template <int i = 0>
  static void load_tensors(const Params& p, std::int64_t offset, float* values) {
    if constexpr (i < kTensors) {
      values[i] = Visitor::template tensor<i>(p.visitor).at(offset);
      load_tensors<i + 1>(p, offset, values);
    }
  }

  static void run(const Params& p) {
    const auto uniform = Visitor::uniform(p.visitor);
    for (int image = 0; image < p.fixed.images; ++image) run_image(p, uniform, image);
  }

  static void run_image(const Params& p, const typename Visitor::Uniform& u, int image) {
    const FixedParams& f = p.fixed;
    const std::int64_t first = image * f.rows * f.channels, size = f.rows * f.channels;
    std::vector<Channel> channels(static_cast<std::size_t>(f.channels));
    for (int c = 0; c < f.channels; ++c) {
      channels[c].before.resize(Visitor::kColumnsBefore + 1, kNone);
      channels[c].after.resize(Visitor::kColumnsAfter + 1, kNone);
      Visitor::columns_before(p.visitor, u, image, c, channels[c].before.data());
      Visitor::columns_after(p.visitor, u, image, c, channels[c].after.data());
    }
    std::vector<float> x(f.accumulators + first, f.accumulators + first + size), tensors(kTensors + 1, kNone);
    if constexpr (kNormalises) {
      for (std::int64_t i = 0; i < size; ++i) {
        const Channel& c = channels[i % f.channels];
        load_tensors(p, first + i, tensors.data());
        if constexpr (Visitor::kSide == SideStore::kBefore)
          f.side[first + i] = Visitor::Side::pack(Visitor::side(x[i], c.before.data(), tensors.data(), u));
        x[i] = Visitor::before(x[i], c.before.data(), tensors.data(), u);
      }
      if constexpr (!kRows) normalise(p, u, image, x, channels);
    }
    Channel pixel;
    for (std::int64_t i = 0; i < size; ++i) {
      const Channel& c = channels[i % f.channels];
      if constexpr (kRows)
        if (i % f.channels == 0) pixel = over_channels(p, u, x.data() + i);
      load_tensors(p, first + i, tensors.data());
      const float y = kNormalises ? normalised(kRows ? pixel : c, x[i]) : x[i];
      const float* behind = tensors.data() + kFirst;
      f.output[first + i] =
          Visitor::Output::pack(Visitor::after(y, Visitor::kRaw ? x[i] : kNone, c.after.data(), behind, u));
      if constexpr (Visitor::kSide == SideStore::kAfter)
        f.side[first + i] = Visitor::Side::pack(Visitor::side(y, c.after.data(), behind, u));
    }
  }

  static float normalised(const Channel& c, float x) { return std::fma(x - c.mean, c.affine.x, c.affine.y); }

  // Statistics of one pixel; `affine` cannot read an operand of a channel
  static Channel over_channels(const Params& p, const typename Visitor::Uniform& u, const float* x) {
    const auto count = static_cast<double>(p.fixed.channels);
    double sum = 0, squares = 0;
    for (std::int64_t c = 0; c < p.fixed.channels; ++c) sum += x[c];
    const double mean = sum / count;
    for (std::int64_t c = 0; c < p.fixed.channels; ++c) squares += (x[c] - mean) * (x[c] - mean);
    Channel pixel;
    pixel.mean = math::rounded(mean);
    static_assert(!kRows || std::is_empty_v<typename Visitor::Late>);
    pixel.affine = Visitor::affine({}, u, pixel.mean, math::rounded(squares / count));
    return pixel;
  }

  static void normalise(const Params& p, const typename Visitor::Uniform& u, int image, const std::vector<float>& x,
                        std::vector<Channel>& channels) {
    const FixedParams& f = p.fixed;
    const double count = static_cast<double>(f.rows * f.group_channels);
    for (int group = 0; group < f.channels / f.group_channels; ++group) {
      const auto over_group = [&](auto term) {
        double sum = 0;
        for (std::int64_t r = 0; r < f.rows; ++r)
          for (std::int64_t c = 0; c < f.group_channels; ++c)
            sum += term(x[r * f.channels + group * f.group_channels + c]);
        return sum / count;
      };
      const double mean = over_group([](double v) { return v; });
      const double variance = over_group([mean](double v) { return (v - mean) * (v - mean); });
      const float m = math::rounded(mean), v = math::rounded(variance);
      for (std::int64_t c = group * f.group_channels; c < (group + 1) * f.group_channels; ++c) {
        channels[c].mean = m;
        channels[c].affine = Visitor::affine(Visitor::late(p.visitor, u, image, static_cast<int>(c)), u, m, v);
      }
      if constexpr (Visitor::kStatistics) Visitor::statistics(p.visitor, u, image, group, m, v);
    }
  }
};

}  // namespace host
