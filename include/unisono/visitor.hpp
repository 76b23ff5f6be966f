#pragma once
/// An epilogue for a kernel of one's own: CUDA C++ that the kernel includes, and calls for each of its sums.

#include <map>
#include <set>
#include <string>

#include "unisono/contraction.hpp"
#include "unisono/dtype.hpp"
#include "unisono/graph.hpp"

namespace unisono {

struct VisitorOptions {
  std::string name = "epilogue";              ///< names the namespace within `unisono` that holds it: an identifier
  bool accurate = false;                      ///< as CompileOptions::accurate
  std::map<std::string, DType> storage = {};  ///< as CompileOptions::storage
  std::set<std::string> device_scalars = {};  ///< as CompileOptions::device_scalars
};

/// The text of a header that defines `unisono::NAME::Epilogue` and, as its member, the struct `Params` of all operands
/// and of the results that the kernel does not address itself. It includes device headers that are installed beside the
/// public ones. docs/device-visitors.md shows a kernel that uses it. The graph passes through the same passes as in
/// compile(); of the contraction only the extents count.
///
/// Throws UserError for a contraction, graph or name that is wrong, and Unsupported for what needs more than one
/// element and its row: normalisations and reductions, whose parts compile()'s kernels exchange.
std::string visitor_source(const Contraction& contraction, const Graph& graph, const VisitorOptions& options = {});

}  // namespace unisono
