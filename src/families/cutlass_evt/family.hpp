#pragma once
/// Matrix products by CUTLASS's kernels and epilogue visitors. They are compiled by nvcc from CUTLASS's headers, so
/// they are chosen only by name: `family=cutlass_evt`.

#include "families/interface/family.hpp"

namespace unisono::families::cutlass_evt {

const Family& family();

}  // namespace unisono::families::cutlass_evt
