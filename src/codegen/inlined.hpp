#pragma once
/// Texts that stand by themselves.

#include <span>
#include <string>
#include <string_view>

#include "codegen/codegen.hpp"

namespace unisono::codegen {

/// The text with headers of Unisono's in place of their #include lines, each once and between two lines that name it:
///   // ---- unisono/tile/layout.cuh
///   // ---- end of unisono/tile/layout.cuh
/// and where it is included again "// ---- above: unisono/tile/layout.cuh". `further` are known beside
/// device_headers().
std::string inlined(std::string_view source, std::span<const Header> further = {});

/// kernels/unisono/emitted/: what emitted files have beside the device headers.
std::span<const Header> emitted_headers();

/// The text with `to` in place of each `from`.
std::string replaced(std::string text, std::string_view from, std::string_view to);

/// The text with `to` in place of each identifier (or identifier and more) `from`: not where that is a part of a longer
/// one.
std::string renamed(std::string_view text, std::string_view from, std::string_view to);

}  // namespace unisono::codegen
