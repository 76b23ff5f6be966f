#pragma once
/// The names in Arguments against those of a graph.

#include <span>
#include <string>

#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::runtime {

/// Throws UserError, with a suggestion for a near miss, if Arguments::operands or scalars has a name that is none of
/// `operands`, or both have the same one, or if outputs has a name that is none of `stores`.
void check_names(const Arguments& arguments, std::span<const std::string> operands, std::span<const Store> stores);

/// Throws UserError if Arguments::pointers has a name that is none of `pointers`.
void check_pointers(const Arguments& arguments, std::span<const std::string> pointers);

/// Names of the pointers that the functions which a graph calls have captured, each once.
std::vector<std::string> pointer_names(const Graph& graph);

/// Throws UserError if Arguments has an image or a filter and the contraction `is_product`, or left or right and it is
/// none.
void check_factors(const Arguments& arguments, bool is_product, bool is_dual);

/// For errors about an operand that nothing is bound to: "; did you mean 'bias'?" if Arguments binds a name so near
/// that the text may have meant it, else nothing.
std::string bound_near(const std::string& operand, const Arguments& arguments);

/// Throws UserError if CompileOptions::storage or device_scalars has a name that is none of `operands`, or storage a
/// reserved dtype.
void check_storage(const CompileOptions& options, std::span<const std::string> operands);

/// Names of the operands of a graph, each once, in the order of their nodes.
std::vector<std::string> operand_names(const Graph& graph);

}  // namespace unisono::runtime
