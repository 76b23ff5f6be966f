#pragma once
/// The configuration as a struct of constants, and the kernel's text around it.

#include "codegen/codegen.hpp"
#include "families/sm90_depthwise/depthwise.hpp"

namespace unisono::families::sm90_depthwise {

/// Throws as the generator of convolutions does.
codegen::Kernel generate(const plan::Epilogue& epilogue, const DepthwiseConfig& config,
                         const codegen::Options& options = {});

}  // namespace unisono::families::sm90_depthwise
