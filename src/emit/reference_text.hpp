#pragma once
/// An emitted kernel's results in float64, as C++ over kernels/unisono/emitted/.

#include <optional>
#include <string>

#include "emit/filled.hpp"

namespace unisono::emit {

/// Why a program cannot compute them by itself; nothing: it can.
std::optional<std::string> why_unchecked(const lower::Lowered& lowered);

/// Statements that compute every node of the graph as the passes leave it, which the kernel was made of, and call
/// `agrees` for every store, from the constants `space` and `contraction` and the tensors t0, t1, … of the arguments.
std::string reference_text(const lower::Lowered& lowered, const Filled& filled);

/// Those constants.
std::string problem_text(const Contraction& contraction);

/// The number that is given to the argument at this index, which is one.
double number_of(const lower::Lowered& lowered, const Filled& filled, std::size_t argument);

/// "Type::bf16"
std::string type_text(DType type);

/// A float64 literal.
std::string literal(double value);

}  // namespace unisono::emit
