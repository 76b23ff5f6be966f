#pragma once
/// An elementwise operator on numbers in registers, as text.

#include <span>
#include <string>
#include <variant>

#include "unisono/dtype.hpp"
#include "unisono/network/operators.hpp"

namespace unisono::tensors {

using NodeOperation = std::variant<operators::Map, operators::Elementwise>;

struct NodeValue {
  std::string name;
  DType type{};
};

/// How a node is written, and of which type it is.
struct NodeText {
  std::string text;
  DType type{};
  bool reports = false;  ///< it tells faults to `faults`
};

/// Throws InternalError for operands of types that the operator does not take.
NodeText node_text(const NodeOperation& op, std::span<const NodeValue* const> operands);

}  // namespace unisono::tensors
