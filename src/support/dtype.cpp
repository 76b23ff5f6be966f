#include "unisono/dtype.hpp"

#include <array>
#include <stdexcept>

#include "support/dtypes.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {

constexpr std::array<std::string_view, tensor_dtype_count> names{
#define UNISONO_DTYPE(NAME, TEXT, ...) TEXT,
#include "unisono/dtypes.def"
};

enum class Kind { floating, integral, networks };
constexpr Kind kind_of(DType t) {
  constexpr std::array kinds{
#define UNISONO_DTYPE(NAME, TEXT, KIND, ...) Kind::KIND,
#include "unisono/dtypes.def"
  };
  return kinds[static_cast<std::size_t>(t)];
}

// What is_float() and dtype_count say of the order of the rows
constexpr bool stand_in_order() {
  for (int i = 0; i < tensor_dtype_count; ++i) {
    const auto t = static_cast<DType>(i);
    if ((kind_of(t) == Kind::floating) != is_float(t) || (kind_of(t) == Kind::networks) != (i >= dtype_count))
      return false;
  }
  return true;
}
static_assert(stand_in_order(), "unisono/dtypes.def: rows of one kind stand together");

}  // namespace

std::string_view to_string(DType t) { return names[static_cast<std::size_t>(t)]; }

std::optional<DType> dtype_from_string(std::string_view name) {
  for (std::size_t i = 0; i < dtype_count; ++i)
    if (names[i] == name) return static_cast<DType>(i);
  return std::nullopt;
}

namespace support {

std::optional<MatrixOperand> matrix_operand(DType t) {
#define OPERAND(AS, TIME) return MatrixOperand{DType::AS, TIME};
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  return std::nullopt;
}

int matrix_time(DType t) {
  const auto operand = matrix_operand(t);
  if (!operand) throw InternalError("no matrix instruction multiplies " + std::string(to_string(t)));
  return operand->time;
}

}  // namespace support

}  // namespace unisono
