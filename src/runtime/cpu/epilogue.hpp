#pragma once
/// Entry point for networks: an epilogue graph without a contraction, over a tensor that stands in for the accumulator.

#include "coda/contraction.hpp"
#include "coda/executable.hpp"
#include "coda/graph.hpp"

namespace coda::cpu {

/// Compiles `graph` over the iteration space `space`. Acc, if the graph uses it, is Arguments::a: float32, shape
/// (images, height, width, cols), channels last. Arguments::b is not read. Operands and outputs with axes [m,n] have
/// the same shape.
///
/// Views with axes [m,n] (acc, operands, outputs) may have a pixel stride above cols: strides {height·width·s, width·s,
/// s, 1} with s >= cols, as a channel slice of a wider tensor has. A graph that is elementwise only may write its
/// output over acc (the same view): every element is read before it is written.
Executable compile_epilogue(const Extents& space, const Graph& graph, const CompileOptions& options = {});

}  // namespace coda::cpu
