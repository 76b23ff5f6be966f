#pragma once
/// What each operation is called, how many inputs it takes and what passes may rely on: the columns of the table of
/// operations (unisono/operations.def) that parser, printer, verifier and backends share.

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

/// How the dtype of a result follows from those of the inputs; constants take the dtype of what they meet.
enum class TypeRule : std::uint8_t {
  own,         ///< the operation's: leaves, cast, one_hot, normalisations, softmax, calls
  arithmetic,  ///< the common dtype; bool becomes f32
  real,        ///< the common dtype of floats; integers become f32
  boolean,
  picked,  ///< select: the common dtype of the second and third input
};

/// What an element costs a GPU.
enum class Cost : std::uint8_t {
  simple,
  special,  ///< the special-function unit takes part, or a library function
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
  std::span<const Parameter> parameters{};  ///< in the order of positional arguments, after the inputs
  std::string_view symbol{};                ///< infix or prefix operator, if it has one
  TypeRule type = TypeRule::own;
  Cost cost = Cost::simple;
  bool commutes = false;     ///< the first two inputs may change places
  bool picks = false;        ///< the result is one of the inputs, but for its sign
  bool nonnegative = false;  ///< the result is never below 0 and never -0; NaN is allowed
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

/// The domain that a normalisation's statistics run over: fixed by the op, apart from the groups of group_norm.
ReduceDomain normalisation_domain(Op op, int groups);

}  // namespace unisono::ir
