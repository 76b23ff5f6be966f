#pragma once
/// Leaves of a graph: what the caller binds, constants, coordinates.

#include "reference/term.hpp"
#include "unisono/executable.hpp"

namespace unisono::reference {

/// The operand that `node` names, from its tensor, its number or its default. Throws UserError if it is missing, bound
/// twice, or has another shape or dtype than declared.
Term load_operand(const Node& node, const Arguments& arguments, const Contraction& contraction, const Space& space);

Term load_index(const Node& node, const Space& space);
Term load_extent(const Node& node, const Space& space);

/// `view` with the dimensions of an [m,n] value in canonical order (b, p, q, n), where `contraction` is NCHW.
struct Strided canonical(struct Strided view, const Axes& axes, const Contraction& contraction);

}  // namespace unisono::reference
