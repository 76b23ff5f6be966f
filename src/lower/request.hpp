#pragma once
/// What the compiler is asked for.

#include <span>
#include <string>

#include "codegen/codegen.hpp"
#include "families/interface/plan.hpp"
#include "jit/jit.hpp"
#include "unisono/contraction.hpp"

namespace unisono::lower {

/// All device headers, which every generated kernel may include.
std::span<const jit::Header> device_headers();

/// The compilation of a kernel, with a title for people. The request refers to device_headers().
jit::Request request(const codegen::Kernel& kernel, const families::Plan& plan, const Contraction& contraction,
                     const std::string& arch);

}  // namespace unisono::lower
