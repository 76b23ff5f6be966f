#pragma once
/// One node of a graph as an expression of C++.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::codegen {

/// The C++ type of a value: "float" for all floating dtypes, "int", "bool".
std::string_view type_of(DType t);

/// A number as a literal of that type, exact: "0.1f", "3", "true", "__int_as_float(0x7f800000)".
std::string literal(double value, DType t);

/// `text`, of C++ type type_of(from), as a value of type_of(to). Rounds to no short type.
std::string converted(const std::string& text, DType from, DType to);

/// An elementwise node or call over inputs that stand in `inputs` as names or literals; constants among the inputs are
/// spelled from the graph. `accurate` chooses the form of functions that have two.
std::string expression(const Graph& graph, ValueId id, std::span<const std::string> inputs, bool accurate);

/// A call of a user function: these arguments, then what it has captured in memory, of a Uniform `u`. Throws UserError
/// for one without CUDA text.
std::string call_text(const UserFunction& function, std::vector<std::string> arguments);

/// The member of Params and Uniform that has the address which user functions have captured under that name. No other
/// name of generated code has two underscores in a row.
std::string pointer_member(std::string_view name);

}  // namespace unisono::codegen
