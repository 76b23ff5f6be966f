#pragma once
/// Which elements want the accurate forms though the others take the short ones.

#include <vector>

#include "plan/epilogue.hpp"

namespace unisono::codegen {

/// For each value of a general epilogue: all that results [m,n] of more than 16 bits are computed from, and of what
/// stored reductions and rows are computed from the functions whose short forms are good for 16 bits only (those of
/// tanh.approx); the short forms of the others are off by 2^-17 at most.
std::vector<bool> precise_elements(const plan::Epilogue& epilogue);

}  // namespace unisono::codegen
