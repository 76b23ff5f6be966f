#pragma once
/// A kernel for the mean over an image's pixels and two layers of it (kernels/unisono/plain/small_layers.cuh), each
/// with an epilogue graph. Pure: the same input gives the same text.

#include <string>
#include <vector>

#include "plan/expected.hpp"
#include "unisono/graph.hpp"

namespace unisono::codegen {

struct SmallLayersKernel {
  std::string source, entry;
  /// Operands in the order of SmallLayersParams::operands, f32: of the first graph, then of the second.
  std::vector<std::string> first, second;
  static constexpr int ctas = 8, threads = 256;  ///< CTAs that share an image, in one cluster; threads of a CTA
};

/// The graphs have been through passes::run_pipeline, and store one value of axes [m,n]. Refuses operands of other axes
/// than [n] and none, whatever is no elementwise operation, and more operands than the parameter has.
plan::Expected<SmallLayersKernel> small_layers_kernel(const Graph& first, const Graph& second, DType element);

}  // namespace unisono::codegen
