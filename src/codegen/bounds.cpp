#include "codegen/bounds.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::codegen {

// Each is derived in docs/numerics.md; a sixteenth on top of the leading term takes up the float32 roundings beside it
FastBound fast_bound(const Node& node) {
  constexpr double slack = 1 + 0x1p-4;
  switch (node.op) {
#define FAST(...) __VA_ARGS__
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    return {__VA_ARGS__};              \
  }
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...) \
  case Op::NAME: {                                           \
    [[maybe_unused]] const double p = node.attr.P_FIELD;     \
    return {__VA_ARGS__};                                    \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  return {};
}

bool is_coarse(const Node& node) {
  const FastBound b = fast_bound(node);
  return std::max({b.relative, b.absolute, b.input}) >= 0x1p-13;
}

}  // namespace unisono::codegen
