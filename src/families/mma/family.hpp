#pragma once
/// Convolutions NHWC, their transposes and products by cp.async, ldmatrix and mma.sync, on every architecture from
/// sm_80 on: kernels/unisono/sm80/conv.cuh.

#include "families/interface/family.hpp"

namespace unisono::families::mma {

const Family& family();

}  // namespace unisono::families::mma
