#pragma once
/// The host's side of an emitted kernel.

#include <string>
#include <string_view>

#include "emit/filled.hpp"

namespace unisono::emit {

/// NAME.h: the arguments, and the declarations of the host functions.
std::string header_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name);

/// The definitions, behind the kernel and kernels/unisono/emitted/launch.hpp.
std::string host_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name);

/// "gemm 256x512x64: sm90_conv 128x128 …"
std::string title(const lower::Lowered& lowered);

/// "bf16 (256,64)"
std::string shape_text(const Argument& argument);

}  // namespace unisono::emit
