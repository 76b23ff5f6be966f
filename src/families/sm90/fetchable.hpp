#pragma once
/// Operands [m,n] that a kernel may bring by TMA into its staging buffers.

#include <vector>

#include "plan/epilogue.hpp"

namespace unisono::families::sm90 {

/// Those that have 16 bits in memory, in their order, ahead of a normalisation or, if these are none, of the others. A
/// kernel fetches the first few of them.
std::vector<ValueId> fetchable_operands(const plan::Epilogue& epilogue);

}  // namespace unisono::families::sm90
