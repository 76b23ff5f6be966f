#pragma once
/// Epilogues for which CUTLASS has a name.

#include <optional>
#include <string>

#include "families/cutlass_evt/visitors.hpp"

namespace unisono::families::cutlass_evt {

/// "cutlass::epilogue::fusion::LinCombEltAct<thread::ReLu, …>": the operation of CUTLASS's fusion/operations.hpp that
/// computes exactly this; nothing if none does. alpha and beta are scalars that the caller binds, C is an operand
/// [m,n], a bias a vector.
std::optional<std::string> builtin_fusion(const Visitors& visitors);

}  // namespace unisono::families::cutlass_evt
