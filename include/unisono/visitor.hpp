#pragma once
/// Generates an epilogue for the caller's own CUDA kernel, which includes it and calls it for each of its sums.

#include <map>
#include <set>
#include <string>

#include "unisono/contraction.hpp"
#include "unisono/dtype.hpp"
#include "unisono/graph.hpp"

namespace unisono {

struct VisitorOptions {
  std::string name = "epilogue";              ///< an identifier: the namespace within `unisono`
  bool accurate = false;                      ///< as CompileOptions::accurate
  std::map<std::string, DType> storage = {};  ///< as CompileOptions::storage
  std::set<std::string> device_scalars = {};  ///< as CompileOptions::device_scalars
};

/// Returns the text of a header that defines `unisono::NAME::Epilogue` and its member struct `Params`, which has all
/// operands, and the results that the kernel does not address itself. It includes device headers, which are installed
/// next to the public ones. docs/device-visitors.md shows a kernel that uses it. The graph passes through the passes of
/// compile(); only the extents of the contraction matter.
///
/// Throws UserError for an invalid contraction, graph or name, and Unsupported for normalisations and reductions, which
/// need other elements.
std::string visitor_source(const Contraction& contraction, const Graph& graph, const VisitorOptions& options = {});

}  // namespace unisono
