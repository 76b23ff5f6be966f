#include "reference/network/tensor64.hpp"

#include <fmt/format.h>

#include <cmath>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {

std::vector<double> nearest_float64(const ConstTensorView& tensor) {
  std::vector<double> values(static_cast<std::size_t>(element_count(tensor.shape)));
  const auto integers = [&]<class T>(T) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(static_cast<const T*>(tensor.data)[i]);
  };
  switch (tensor.dtype) {
    case DType::i8: integers(std::int8_t{}); break;
    case DType::i16: integers(std::int16_t{}); break;
    case DType::i64: integers(std::int64_t{}); break;
    case DType::u8: integers(std::uint8_t{}); break;
    case DType::u16: integers(std::uint16_t{}); break;
    case DType::u32: integers(std::uint32_t{}); break;
    case DType::u64: integers(std::uint64_t{}); break;
    default:
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = support::load(tensor.data, static_cast<std::int64_t>(i), tensor.dtype);
  }
  return values;
}

namespace {

std::string integer_text(const ConstTensorView& tensor, std::size_t i) {
  return tensor.dtype == DType::u64 ? std::to_string(static_cast<const std::uint64_t*>(tensor.data)[i])
                                    : std::to_string(static_cast<const std::int64_t*>(tensor.data)[i]);
}

}  // namespace

std::vector<double> as_float64(const ConstTensorView& tensor, const std::string& name) {
  std::vector<double> values = nearest_float64(tensor);
  for (std::size_t i = 0; !is_float(tensor.dtype) && i < values.size(); ++i)
    if (std::abs(values[i]) > 0x1p53)
      throw Unsupported(
          fmt::format("the float64 reference cannot hold {}, an element of '{}' ({}); run without --check",
                      integer_text(tensor, i), name, to_string(tensor.dtype)));
  return values;
}

}  // namespace unisono::float64
