#pragma once
/// A family of kernels that is no part of the library, and the first of real fragments other than wgmma's: convolutions
/// by cp.async, ldmatrix and mma.sync. It brings a main loop, its roles and a fragment; visitor, statistics, exchange
/// and stores are the library's (kernels/unisono/epilogue/fragment_epilogue.cuh).

#include "families/interface/family.hpp"

namespace unisono::mma {

/// Convolutions of dense 16-bit images NHWC, and every epilogue but what needs tiles that wait in memory.
const families::Family& mma_conv();

}  // namespace unisono::mma
