#pragma once
/// The text of a plan's kernel.

#include "codegen/codegen.hpp"
#include "families/plain/space.hpp"

namespace unisono::families::plain {

codegen::Kernel generate(const plan::Epilogue& epilogue, const Config& config, const codegen::Options& options);

}  // namespace unisono::families::plain
