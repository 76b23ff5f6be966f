#include "unisono/elements.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono {
namespace {

template <class To, class From>
std::vector<To> converted(std::span<const From> values) {
  std::vector<To> result;
  result.reserve(values.size());
  for (const From& x : values) result.push_back(static_cast<To>(x));
  return result;
}

}  // namespace

BFloat16::BFloat16(float x) : bits(support::float_to_bf16(x)) {}
BFloat16::operator float() const { return support::bf16_to_float(bits); }
Float16::Float16(float x) : bits(support::float_to_f16(x)) {}
Float16::operator float() const { return support::f16_to_float(bits); }

std::vector<BFloat16> to_bf16(std::span<const float> values) { return converted<BFloat16>(values); }
std::vector<Float16> to_f16(std::span<const float> values) { return converted<Float16>(values); }
std::vector<float> to_f32(std::span<const BFloat16> values) { return converted<float>(values); }
std::vector<float> to_f32(std::span<const Float16> values) { return converted<float>(values); }

void check_fills(std::size_t elements, const std::vector<std::int64_t>& shape) {
  const std::int64_t expected = element_count(shape);
  if (elements != static_cast<std::size_t>(expected))
    throw UserError(fmt::format("a view of {} elements has the shape ({}); expected {} elements", elements,
                                fmt::join(shape, ","), expected));
}

}  // namespace unisono
