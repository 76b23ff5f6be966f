#pragma once
/// From an epilogue graph to visitors.

#include "codegen/codegen.hpp"
#include "families/cutlass_evt/visitors.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"

namespace unisono::families::cutlass_evt {

/// Refuses, with the value at fault, what CUTLASS has no visitor for; atomic reductions too, unless `atomic`.
plan::Expected<Visitors> visitors_of(const plan::Epilogue& epilogue, const codegen::Options& options, bool has_source,
                                     bool atomic);

}  // namespace unisono::families::cutlass_evt
