#pragma once
/// Operands [m,n] that a kernel may bring by TMA into its staging buffers.

#include <vector>

#include "plan/epilogue.hpp"

namespace unisono::plan {

/// An operand's dtype in memory: as the graph declares it, else as it is bound (f32 by default).
DType storage_of(const Epilogue& epilogue, ValueId operand);

/// Those that have 16 bits in memory, in their order, ahead of a normalisation or, if these are none, of the others. A
/// kernel fetches the first few of them.
std::vector<ValueId> fetchable_operands(const Epilogue& epilogue);

}  // namespace unisono::plan
