#pragma once
/// A family of kernels that is no part of the library: products, one sum a thread, with the generated visitor. It shows
/// what a family has to bring, and that it needs nothing else.

#include "families/interface/family.hpp"

namespace unisono::toy {

/// Contractions that are one product of dense 16-bit matrices, and epilogues that are a value for each element.
const families::Family& scalar_gemm();

}  // namespace unisono::toy
