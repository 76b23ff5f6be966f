#pragma once
/// A program around an emitted kernel.

#include <string>
#include <string_view>

#include "emit/filled.hpp"

namespace unisono::emit {

/// `int main()`, behind kernels/unisono/emitted/: it runs the kernel twice on random operands and exits with 0 if every
/// element of all outputs agrees with float64, both times with the same bits, and nothing around them was written; 1 if
/// not, 2 if the kernel could not run.
std::string check_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name);

}  // namespace unisono::emit
