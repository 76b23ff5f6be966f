#pragma once
/// The visitors of CUTLASS 3.x: cutlass/epilogue/fusion/sm90_visitor_*.hpp. sm_100a has the same.

#include "families/cutlass_evt/tree_text.hpp"

namespace unisono::families::cutlass_evt {

const Dialect& sm90_dialect();
/// The same for grouped products: addresses of [m] are those of each group.
const Dialect& sm90_grouped_dialect();

}  // namespace unisono::families::cutlass_evt
