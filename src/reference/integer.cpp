/// Nodes of dtype i32: exact arithmetic, reduced modulo 2^32 to two's complement.

#include <algorithm>
#include <array>

#include "reference/nodes.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

// `exact` is the result before wrapping. Inputs may carry an error (a cast of an inexact float): where that reaches a
// wrap, no claim is made.
V wrapped(std::int64_t exact, double e) {
  const auto v = static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(exact)));
  return {v, e == 0 || std::abs(static_cast<double>(exact)) + e < 0x1p31 ? e : infinity};
}

// The types of a graph see to it that only integers of 32 bits come here
std::int64_t integer(V x) {
  if (!(x.v >= -0x1p31 && x.v < 0x1p31)) throw InternalError("a value beyond 32 bits in a node of dtype i32");
  return static_cast<std::int64_t>(x.v);
}

V multiply(V x, V y) { return wrapped(integer(x) * integer(y), Arithmetic::product_error(x, y)); }

V apply(Op op, V x, V y, V z) {
  switch (op) {
#define REFERENCE_I32(...) return __VA_ARGS__;
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    __VA_ARGS__ break;                 \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  throw InternalError("the reference has no i32 operation " + std::string(to_string(op)));
}

}  // namespace

void evaluate_integer(Op op, Inputs inputs, Term& out, const Space& space) {
  std::array<const Term*, 3> in;
  for (std::size_t i = 0; i < 3; ++i) in[i] = inputs[std::min(i, inputs.size() - 1)];
  for_each_stretch<3>(out, in, space, [&](std::int64_t first, std::int64_t count, const std::array<Lane, 3>& x) {
    for (std::int64_t i = 0; i < count; ++i) {
      const V r = apply(op, x[0][i], x[1][i], x[2][i]);
      out.values()[first + i] = r.v;
      out.bounds()[first + i] = std::isnan(r.e) ? infinity : r.e;
    }
  });
}

}  // namespace unisono::reference
