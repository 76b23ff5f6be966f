#include "unisono/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "unisono/error.hpp"

namespace unisono {

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const auto e : shape)
    if (e < 0 || __builtin_mul_overflow(n, e, &n))
      throw UserError(fmt::format("the shape {} has a negative extent or over 2^63 elements", fmt::join(shape, "x")));
  return n;
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (auto i = shape.size(); i-- > 0;) {
    strides[i] = step;
    if (__builtin_mul_overflow(step, shape[i], &step) && i > 0)
      throw UserError(fmt::format("the strides of the shape {} are over 2^63", fmt::join(shape, "x")));
  }
  return strides;
}

}  // namespace unisono
