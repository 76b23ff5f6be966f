#include "gpu/tensor_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "support/float_convert.hpp"
#include "unisono/tensor.hpp"

namespace unisono::gpu {

namespace {

std::size_t bytes_of(const LaidTensor& t) { return size_of(t.at.type.memory); }

// All bytes are 0xff until they are written
void allocate(LaidTensor& t, std::int64_t tail) {
  std::int64_t last = t.at.offset;
  for (std::size_t i = 0; i < t.at.shape.size(); ++i)
    if (t.at.shape[i] > 0) last += (t.at.shape[i] - 1) * t.at.strides[i];
  t.memory.assign(static_cast<std::size_t>(last + 1 + tail) * bytes_of(t), std::byte{0xff});
}

std::uint64_t real_bits(double value, DType memory) {
  std::uint64_t bits = 0;
  const auto put = [&](auto x) { std::memcpy(&bits, &x, sizeof x); };
  switch (memory) {
    case DType::f64: put(value); break;
    case DType::f32: put(static_cast<float>(value)); break;
    case DType::f16: put(support::float_to_f16(static_cast<float>(value))); break;
    default: put(support::float_to_bf16(static_cast<float>(value)));
  }
  return bits;
}

std::vector<double> special_reals(DType t) {
  const double largest = t == DType::f64   ? std::numeric_limits<double>::max()
                         : t == DType::f16 ? 65504.0
                                           : static_cast<double>(std::numeric_limits<float>::max());
  const double infinity = std::numeric_limits<double>::infinity();
  return {0.0,
          -0.0,
          0.5,
          -0.5,
          1,
          -1,
          1.5,
          2.5,
          -3.5,
          127.5,
          128,
          255.75,
          -129,
          256,
          3.0e9,
          -3.0e9,
          0x1p31,
          0x1p32,
          0x1p63,
          -0x1p63,
          0x1p64,
          65519,
          65520,
          1 + 0x1p-8,
          1e-40,
          0x1p-24,
          3 * 0x1p-25,
          1 + 0x1p-9 + 0x1p-20,
          0x1.01p0,
          1 + 0x1p-8 + 0x1p-40,
          1 + 0x1p-11 + 0x1p-40,
          largest,
          -largest,
          infinity,
          -infinity,
          std::numeric_limits<double>::quiet_NaN()};
}

std::vector<std::uint64_t> special_bits(DType t) {
  const std::size_t bits = 8 * size_of(t);
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  std::vector<std::uint64_t> list;
  if (t == DType::boolean) return {0, 1};
  if (!is_float(t)) {
    for (std::uint64_t x : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{7},
                            std::uint64_t{31}, std::uint64_t{64}, sign - 2, sign - 1, sign, sign + 1, ~std::uint64_t{0},
                            ~std::uint64_t{1}, ~std::uint64_t{4}})
      list.push_back(x);
    return list;
  }
  for (const double x : special_reals(t)) list.push_back(real_bits(x, t));
  return list;
}

bool is_nan(const LaidTensor& t, std::int64_t i) { return is_float(t.at.type.memory) && std::isnan(real_of(t, i)); }

bool is_zero(const LaidTensor& t, std::int64_t i) {
  return is_float(t.at.type.memory) ? real_of(t, i) == 0 : bits_of(t, i) == 0;
}

}  // namespace

std::size_t place_of(const LaidTensor& t, std::int64_t number) {
  std::int64_t at = t.at.offset;
  for (std::size_t i = t.at.shape.size(); i-- > 0;) {
    at += number % t.at.shape[i] * t.at.strides[i];
    number /= t.at.shape[i];
  }
  return static_cast<std::size_t>(at) * bytes_of(t);
}

cpu::Strided LaidTensor::view() {
  return {memory.data() + static_cast<std::size_t>(at.offset) * size_of(at.type.memory), at.type.memory, at.shape,
          at.strides};
}

std::vector<std::byte> LaidTensor::dense() const {
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < element_count(at.shape); ++i) {
    const auto first = memory.begin() + static_cast<std::ptrdiff_t>(place_of(*this, i));
    bytes.insert(bytes.end(), first, first + static_cast<std::ptrdiff_t>(size_of(at.type.memory)));
  }
  return bytes;
}

LaidTensor dense_tensor(ElementType type, const Extents& shape) {
  LaidTensor t{{type, shape, row_major_strides(shape), 0, 16}, {}};
  allocate(t, 0);
  return t;
}

LaidTensor random_layout(ElementType type, const Extents& shape, std::mt19937_64& random) {
  LaidTensor t{{type, shape, Extents(shape.size()), static_cast<std::int64_t>(random() % 3), 1}, {}};
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  std::int64_t stride = random() % 4 == 0 ? 2 : 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    t.at.strides[order[i]] = stride;
    stride = stride * shape[order[i]] + (random() % 3 == 0 ? static_cast<std::int64_t>(random() % 3) : 0);
  }
  allocate(t, 2);
  return t;
}

LaidTensor channels_last(ElementType type, const Extents& shape) {
  LaidTensor t{{type, shape, Extents(shape.size()), 0, 16}, {}};
  std::int64_t stride = (shape[1] + 7) / 8 * 8;
  t.at.strides[1] = 1;
  for (std::size_t i = shape.size(); i-- > 0;)
    if (i != 1) t.at.strides[i] = stride, stride *= shape[i];
  allocate(t, 0);
  return t;
}

Extents index_of(std::int64_t number, const Extents& shape) {
  Extents index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; number /= shape[i]) index[i] = number % shape[i];
  return index;
}
std::int64_t number_of(const Extents& index, const Extents& shape) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) number = number * shape[i] + index[i];
  return number;
}

void set_bits(LaidTensor& t, std::int64_t number, std::uint64_t bits) {
  std::memcpy(t.memory.data() + place_of(t, number), &bits, bytes_of(t));
}
std::uint64_t bits_of(const LaidTensor& t, std::int64_t number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, t.memory.data() + place_of(t, number), bytes_of(t));
  return bits;
}
double real_of(const LaidTensor& t, std::int64_t number) {
  return support::load(t.memory.data() + place_of(t, number), 0, t.at.type.memory);
}
void set_element(LaidTensor& t, std::int64_t number, double value) {
  set_bits(t, number,
           is_float(t.at.type.memory)       ? real_bits(value, t.at.type.memory)
           : t.at.type.memory == DType::u64 ? static_cast<std::uint64_t>(value)
                                            : static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
}

void fill_with_edges(LaidTensor& t, std::mt19937_64& random, bool with_zero) {
  const std::vector<std::uint64_t> special = special_bits(t.at.type.memory);
  for (std::int64_t i = 0; i < element_count(t.at.shape); ++i) {
    do {
      if (random() % 4 != 0 || t.at.type.memory == DType::boolean)
        set_bits(t, i, special[random() % special.size()]);
      else
        set_element(t, i, static_cast<double>(random() % 1000) / 8 - (is_float(t.at.type.memory) ? 60 : 0));
    } while (!with_zero && is_zero(t, i));
  }
}

void fill_between(LaidTensor& t, std::mt19937_64& random, double low, double high) {
  std::uniform_real_distribution<double> numbers(low, high);
  for (std::int64_t i = 0; i < element_count(t.at.shape); ++i)
    set_element(t, i, is_float(t.at.type.memory) ? numbers(random) : std::floor(numbers(random) + 0.5));
}

LaidTensor as_valued(const LaidTensor& t) {
  LaidTensor valued = dense_tensor(stored(t.at.type.value), t.at.shape);
  const bool same = t.at.type.value == t.at.type.memory;
  for (std::int64_t i = 0; i < element_count(t.at.shape); ++i)
    set_bits(valued, i, same ? bits_of(t, i) : real_bits(real_of(t, i), t.at.type.value));
  return valued;
}

std::string difference(const LaidTensor& got, const LaidTensor& expected, double units) {
  if (got.at.shape != expected.at.shape) return "another shape";
  const DType t = got.at.type.memory;
  for (std::int64_t i = 0; i < element_count(got.at.shape); ++i) {
    if (is_nan(got, i) && is_nan(expected, i)) continue;
    if (!is_float(t)) {
      if (bits_of(got, i) == bits_of(expected, i)) continue;
      return fmt::format("element {} of [{}] {}: {:#x}, expected {:#x}", i, fmt::join(got.at.shape, ","), to_string(t),
                         bits_of(got, i), bits_of(expected, i));
    }
    const double x = real_of(got, i), y = support::round_to(real_of(expected, i), t);
    const double smallest = t == DType::f64 ? 0x1p-1074 : t == DType::f16 ? 0x1p-24 : 0x1p-149;
    if (x == y || std::abs(x - y) <= units * (unit_roundoff(t) * std::abs(y) + smallest)) continue;
    return fmt::format("element {} of [{}] {}: {}, expected {}", i, fmt::join(got.at.shape, ","), to_string(t), x, y);
  }
  return "";
}

}  // namespace unisono::gpu
