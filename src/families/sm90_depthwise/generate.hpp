#pragma once
/// The configuration as a struct of constants, and the kernel's text around it.

#include "codegen/codegen.hpp"
#include "families/sm90_depthwise/depthwise.hpp"

namespace unisono::codegen {

/// Throws as the generator of convolutions does.
Kernel generate(const plan::Epilogue& epilogue, const plan::DepthwiseConfig& config, const Options& options = {});

}  // namespace unisono::codegen
