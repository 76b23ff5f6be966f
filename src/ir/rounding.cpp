#include "ir/rounding.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace unisono::ir {

namespace {

// ---- On the CPU. Values are floats; what is dropped of their bits says how near the upper neighbour is.

constexpr std::uint32_t exponent_bits = 0x7f800000u, smallest_normal_f16 = 0x38800000u;  // 2^-14

std::uint32_t random_bits(std::uint32_t m, std::uint32_t n, std::uint32_t key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product = std::uint64_t{0xd256d193u} * m;
    m = static_cast<std::uint32_t>(product >> 32) ^ key ^ n;
    n = static_cast<std::uint32_t>(product);
    key += 0x9e3779b9u;
  }
  return m;
}

// `up`: random bits that are added below the last bit that stays; 0: toward zero
float without_low_bits(std::uint32_t bits, int dropped, std::uint32_t up) {
  const std::uint32_t low = (1u << dropped) - 1;
  return std::bit_cast<float>((bits + (up >> (32 - dropped))) & ~low);
}

float rounded(float x, DType to, std::uint32_t up) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & exponent_bits) == exponent_bits) return x;
  if (to == DType::bf16) return without_low_bits(bits, 16, up);
  if ((bits & ~0x80000000u) >= smallest_normal_f16) {
    const float y = without_low_bits(bits, 13, up);
    return up == 0 && std::abs(y) > 65504.0f ? std::copysign(65504.0f, x) : y;
  }
  const float scaled = std::abs(x) * 0x1p24f, whole = std::trunc(scaled);  // a multiple of the least subnormal
  const bool is_up = static_cast<float>(up >> 8) * 0x1p-24f + (scaled - whole) >= 1;
  return std::copysign((whole + (is_up ? 1.0f : 0.0f)) * 0x1p-24f, x);
}

std::uint32_t word(double integer) { return static_cast<std::uint32_t>(static_cast<std::int64_t>(integer)); }

// ---- In CUDA

constexpr std::string_view random_text =
    R"(// Philox2x32-10 (Salmon et al., SC 2011), its first word.
UNISONO_DEVICE unsigned unisono_random_bits(unsigned m, unsigned n, unsigned key) {
    for (int round = 0; round < 10; ++round) {
        const unsigned long long product = 0xd256d193ull * m;
        m = unsigned(product >> 32) ^ key ^ n;
        n = unsigned(product);
        key += 0x9e3779b9u;
    }
    return m;
})";

constexpr std::string_view bf16_text = R"(    return __uint_as_float((bits + (up >> 16)) & 0xffff0000u);
)";

constexpr std::string_view f16_text = R"(    if ((bits & 0x7fffffffu) >= 0x38800000u) {{
        const unsigned y = (bits + (up >> 19)) & 0xffffe000u;
        return __uint_as_float({});
    }}
    const float scaled = __uint_as_float(bits & 0x7fffffffu) * 16777216.f, whole = float(int(scaled));
    const float added = float(up >> 8) * 0x1p-24f + (scaled - whole) >= 1.f ? 1.f : 0.f;
    return __uint_as_float(__float_as_uint((whole + added) * 0x1p-24f) | (bits & 0x80000000u));
)";

std::string cuda_text(std::string_view name, RoundingMode mode, DType to) {
  const bool stochastic = mode == RoundingMode::stochastic;
  const std::string largest =
      stochastic ? "y" : "(y & 0x7fffffffu) > 0x477fe000u ? (y & 0x80000000u) | 0x477fe000u : y";
  return fmt::format(
      "UNISONO_DEVICE float {}(float x{}) {{\n    const unsigned bits = __float_as_uint(x);\n    if ((bits & "
      "0x7f800000u) == 0x7f800000u) return x;\n    const unsigned up = {};\n{}}}",
      name, stochastic ? ", int seed, int m, int n, int stream" : "",
      stochastic ? "unisono_random_bits(unsigned(m), unsigned(n), unsigned(seed) ^ 0x85ebca6bu * unsigned(stream))"
                 : "0u",
      to == DType::bf16 ? std::string(bf16_text) : fmt::format(fmt::runtime(f16_text), largest));
}

}  // namespace

UserFunction rounding_function(RoundingMode mode, DType to) {
  const bool stochastic = mode == RoundingMode::stochastic;
  UserFunction f;
  f.name = fmt::format("round_{}_{}", stochastic ? "stochastic" : "toward_zero", to_string(to));
  f.arity = stochastic ? 5 : 1;
  f.cuda_source = cuda_text(f.name, mode, to);
  if (!stochastic) {
    f.cpu = [to](std::span<const double> x) { return double{rounded(static_cast<float>(x[0]), to, 0)}; };
    return f;
  }
  using enum ParameterType;
  f.parameters = {float32, int32, int32, int32, int32};
  f.shared_source = random_text;
  f.cpu = [to](std::span<const double> x) {
    const std::uint32_t key = word(x[1]) ^ 0x85ebca6bu * word(x[4]);
    return double{rounded(static_cast<float>(x[0]), to, random_bits(word(x[2]), word(x[3]), key))};
  };
  return f;
}

std::optional<UserFunction> rounding_function_named(std::string_view name) {
  for (const RoundingMode mode : {RoundingMode::toward_zero, RoundingMode::stochastic})
    for (const DType to : {DType::f16, DType::bf16})
      if (UserFunction f = rounding_function(mode, to); f.name == name) return f;
  return std::nullopt;
}

}  // namespace unisono::ir
