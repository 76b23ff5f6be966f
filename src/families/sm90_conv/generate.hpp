#pragma once
/// The configuration as a struct of constants, and the kernel's text around it.

#include "codegen/codegen.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Throws UserError for a user function without `cuda_source`, and InternalError for a configuration that is not one of
/// this epilogue. A scalar operand's field is `operand_value` unless Options::scalar_pointers names it; a default value
/// is the caller's to put there.
codegen::Kernel generate(const plan::Epilogue& epilogue, const ConvConfig& config,
                         const codegen::Options& options = {});

}  // namespace unisono::families::sm90_conv
