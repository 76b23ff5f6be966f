#pragma once
/// What the compiler is asked for.

#include <span>
#include <string>
#include <string_view>

#include "codegen/codegen.hpp"
#include "families/interface/plan.hpp"
#include "jit/jit.hpp"
#include "unisono/contraction.hpp"

namespace unisono::lower {

/// All device headers, which every generated kernel may include.
std::span<const jit::Header> device_headers();

/// The device headers that a text names, and those that these name: all that it can include. A compilation that takes
/// minutes depends on no others, so what was compiled ahead is found when other headers have changed. The same texts
/// have the same list, which lasts as long as the process.
std::span<const jit::Header> headers_named(std::string_view source);

/// The compilation of a kernel, with a title for people. The request refers to device_headers(); that of a host library
/// to headers_named().
jit::Request request(const codegen::Kernel& kernel, const families::Plan& plan, const Contraction& contraction,
                     const std::string& arch);

}  // namespace unisono::lower
