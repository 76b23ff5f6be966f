#pragma once
/// The text of a library: a kernel of CUTLASS's with its visitors, and the host function that launches it.

#include "codegen/codegen.hpp"
#include "families/cutlass_evt/config.hpp"
#include "families/cutlass_evt/visitors.hpp"

namespace unisono::families::cutlass_evt {

/// Needs an epilogue that visitors_of() does not refuse with these options.
codegen::Kernel generate(const plan::Epilogue& epilogue, const Config& config, const codegen::Options& options);

}  // namespace unisono::families::cutlass_evt
