#pragma once
/// Convolutions and products as they are written on the command line.

#include <string>

#include "unisono/contraction.hpp"

namespace unisono::command {

/// "8,64,64,320->320,3x3": N,H,W,C -> K,RxS, then in any order pad=1 or pad=top.left.bottom.right (default: half of the
/// filter), stride=2 or stride=2x1, dilation=1, dtype=bf16 (the default) or f16. Throws UserError that shows the part
/// at fault.
Conv2d parse_convolution(const std::string& text);

/// "512,1024->4096": M,K->N of a linear layer, A (m, k) by B (n, k), then dtype=bf16 (the default) or f16. Throws
/// likewise.
Gemm parse_product(const std::string& text);

}  // namespace unisono::command
