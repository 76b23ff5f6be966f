#pragma once
/// What each operation is called and how many inputs it takes; the one table that parser, printer, verifier and
/// backends share.

#include <optional>
#include <span>
#include <string_view>

#include "unisono/graph.hpp"

namespace unisono::ir {

enum class OpClass : std::uint8_t {
  leaf,
  binary,
  comparison,
  logical,
  ternary,
  unary,
  reduction,
  normalisation,
  softmax,
  call
};

/// A number among an operation's attributes.
struct Parameter {
  std::string_view name;  ///< keyword in the text form
  double Attributes::*field;
  double fallback;  ///< its value where the text does not give it
};

struct OpInfo {
  Op op;
  std::string_view name;  ///< in the text form
  OpClass op_class;
  int arity;                                ///< -1: varies (normalisations, calls)
  std::string_view symbol;                  ///< infix or prefix operator, if it has one
  std::span<const Parameter> parameters{};  ///< in the order of positional arguments, after the inputs
};

const OpInfo& info(Op op);

/// By function name ("mish", "group_norm", "max", …). Note that `max(x, y)` is Op::max and `max(x, over=m)` is
/// Op::reduce_max; this returns the elementwise one for "max" and "min".
std::optional<Op> op_from_name(std::string_view name);

inline bool is_elementwise(Op op) {
  const auto c = info(op).op_class;
  return c == OpClass::binary || c == OpClass::comparison || c == OpClass::logical || c == OpClass::ternary ||
         c == OpClass::unary;
}
inline bool is_reduction(Op op) { return info(op).op_class == OpClass::reduction; }
inline bool is_normalisation(Op op) { return info(op).op_class == OpClass::normalisation; }

}  // namespace unisono::ir
