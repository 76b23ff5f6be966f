#pragma once
/// Matrix products and convolutions by CUTLASS's kernels and epilogue visitors. They are compiled by nvcc from
/// CUTLASS's headers, so they are chosen only by name: `family=cutlass_evt`.

#include <string>

#include "families/interface/family.hpp"

namespace unisono::families::cutlass_evt {

const Family& family();

/// The architectures that it generates for, and how far the kernels of each are tested.
std::string tested_architectures();

}  // namespace unisono::families::cutlass_evt
