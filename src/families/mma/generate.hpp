#pragma once
/// The text of a plan's kernel.

#include "codegen/codegen.hpp"
#include "families/mma/plan.hpp"

namespace unisono::families::mma {

codegen::Kernel generate(const plan::Epilogue& epilogue, const Config& config, const codegen::Options& options);

}  // namespace unisono::families::mma
