#pragma once
/// Instructions that one loop can do.

#include "runtime/cpu/program.hpp"

namespace unisono::cpu {

/// Lets lane-wise instructions read a value of each row where it stands, instead of a copy for each column. Joins a
/// bias, a normalisation and the function after it, [add,] sub_fma[, one of normalise_ends], and an addition and ReLU
/// right after it, into one instruction where nothing else reads what is in between. Results stay the same, bit for
/// bit.
void combine_lanes(Program& program);

}  // namespace unisono::cpu
