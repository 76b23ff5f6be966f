#pragma once
/// Rounding otherwise than to nearest, as functions that graphs call ahead of a store. The functions define the result:
/// the reference calls them, too.

#include <optional>
#include <string_view>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// round_toward_zero_T(x), or round_stochastic_T(x, seed, m, n, stream), T f16 or bf16: a value of T.
///
/// Toward zero: of the values of T not above |x| in magnitude the nearest. Infinities and NaN stay; finite values stay
/// finite.
///
/// Stochastic: of the two neighbours of x in T the upper one with probability (x - lower)/(upper - lower), to 2^-16
/// (f16 2^-13, its subnormals 2^-24), so that the mean of the result is x. Values of T stay. Random bits are those of
/// Philox2x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011) of the counter
/// (m, n) and the key seed ^ 0x85ebca6b·stream: the same of the same seed, wherever an element is computed. Graphs give
/// each store a stream of its own.
UserFunction rounding_function(RoundingMode mode, DType to);

/// The function of that name, which graphs need not define; nothing for other names.
std::optional<UserFunction> rounding_function_named(std::string_view name);

}  // namespace unisono::ir
