#pragma once
/// From an epilogue graph to visitors.

#include "codegen/codegen.hpp"
#include "families/cutlass_evt/config.hpp"
#include "families/cutlass_evt/visitors.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"

namespace unisono::families::cutlass_evt {

/// Which visitors there are. Those of CUTLASS 2.x have no SrcFetch (an AuxLoad stands in), give functors no arguments,
/// step by one stride through all factors of a scalar, and reduce by atomic operations alone. They alone read two
/// accumulators: the fetches, and the epilogue that hands them both, are ours.
struct VisitorSet {
  bool is_2x = false;
  bool atomic = false;  ///< atomic reductions are allowed
};

inline VisitorSet visitor_set(const Config& c) { return {.is_2x = is_2x(c.arch), .atomic = c.atomic}; }

/// Refuses, with the value at fault, what CUTLASS has no visitor for; atomic reductions too, unless they are allowed.
plan::Expected<Visitors> visitors_of(const plan::Epilogue& epilogue, const codegen::Options& options, VisitorSet set);

}  // namespace unisono::families::cutlass_evt
