#include "media/convert.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::media {
namespace {

// Holds every value of every element type
using Wide = long double;
static_assert(std::numeric_limits<Wide>::digits >= 64);

template <class T>
Wide read(const std::uint8_t* data, std::size_t i) {
  T x;
  std::memcpy(&x, data + i * sizeof(T), sizeof(T));
  return static_cast<Wide>(x);
}

Wide load(const Array& a, std::size_t i) {
  const std::uint8_t* p = a.bytes.data();
  switch (a.type) {
    case DType::i8: return read<std::int8_t>(p, i);
    case DType::i16: return read<std::int16_t>(p, i);
    case DType::i32: return read<std::int32_t>(p, i);
    case DType::i64: return read<std::int64_t>(p, i);
    case DType::u8: return read<std::uint8_t>(p, i);
    case DType::u16: return read<std::uint16_t>(p, i);
    case DType::u32: return read<std::uint32_t>(p, i);
    case DType::u64: return read<std::uint64_t>(p, i);
    default: return support::load(p, static_cast<std::int64_t>(i), a.type);
  }
}

/// False where T lacks x.
template <class T>
bool write_integer(std::uint8_t* data, std::size_t i, Wide x) {
  if (!(x >= static_cast<Wide>(std::numeric_limits<T>::lowest()) &&
        x <= static_cast<Wide>(std::numeric_limits<T>::max()) && x == std::floor(x)))
    return false;
  const T y = static_cast<T>(x);
  std::memcpy(data + i * sizeof(T), &y, sizeof(T));
  return true;
}

enum class Outcome { kept, rounded, impossible };

Outcome write_float(Array& to, std::size_t i, Wide x, bool may_round) {
  const auto at = static_cast<std::int64_t>(i);
  support::store(to.bytes.data(), at, to.type, static_cast<double>(x));
  const Wide y = support::load(to.bytes.data(), at, to.type);
  if (y == x || (std::isnan(y) && std::isnan(x))) return Outcome::kept;
  return may_round && std::isfinite(y) ? Outcome::rounded : Outcome::impossible;
}

Outcome write(Array& to, std::size_t i, Wide x, bool may_round) {
  std::uint8_t* p = to.bytes.data();
  const auto outcome = [](bool kept) { return kept ? Outcome::kept : Outcome::impossible; };
  switch (to.type) {
    case DType::i8: return outcome(write_integer<std::int8_t>(p, i, x));
    case DType::i16: return outcome(write_integer<std::int16_t>(p, i, x));
    case DType::i32: return outcome(write_integer<std::int32_t>(p, i, x));
    case DType::i64: return outcome(write_integer<std::int64_t>(p, i, x));
    case DType::u8: return outcome(write_integer<std::uint8_t>(p, i, x));
    case DType::u16: return outcome(write_integer<std::uint16_t>(p, i, x));
    case DType::u32: return outcome(write_integer<std::uint32_t>(p, i, x));
    case DType::u64: return outcome(write_integer<std::uint64_t>(p, i, x));
    case DType::boolean: return outcome((x == 0 || x == 1) && write_integer<std::uint8_t>(p, i, x));
    default: return write_float(to, i, x, may_round);
  }
}

}  // namespace

Converted convert(Array array, DType dtype, std::string_view name) {
  if (array.type == dtype) return {std::move(array), {}};
  const std::size_t count = array.bytes.size() / size_of(array.type);
  Array to{dtype, array.shape, std::vector<std::uint8_t>(count * size_of(dtype))};
  std::size_t rounded = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Wide x = load(array, i);
    const Outcome outcome = write(to, i, x, is_float(array.type));
    if (outcome == Outcome::impossible) {
      throw UserError(fmt::format("'{}' holds {} at element {}, which {} cannot represent; give an array of {}", name,
                                  is_float(array.type) ? fmt::format("{:.9g}", x) : fmt::format("{:.0f}", x), i,
                                  numpy_name(dtype), numpy_name(dtype)));
    }
    rounded += outcome == Outcome::rounded ? 1 : 0;
  }
  std::string note = fmt::format("{} becomes {}", numpy_name(array.type), numpy_name(dtype));
  if (rounded > 0) note += fmt::format("; {} of {} values are rounded", rounded, count);
  if (rounded == 0) note += "; every value is kept";
  return {std::move(to), std::move(note)};
}

}  // namespace unisono::media
