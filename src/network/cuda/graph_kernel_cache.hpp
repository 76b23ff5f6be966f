#pragma once
/// The kernels of epilogue graphs that stand by themselves. Networks have the same graphs many times.

#include <map>
#include <string>
#include <vector>

#include "codegen/graph_kernels.hpp"
#include "plan/expected.hpp"
#include "unisono/graph.hpp"

namespace unisono::network::gpu {

/// Makes the kernels of each graph once. Not safe for several threads at once.
class GraphKernelCache {
 public:
  struct Entry {
    Graph optimised;
    std::vector<codegen::GraphKernel> kernels;
  };
  /// Refuses a graph that no kernel has.
  const plan::Expected<Entry>& of(const Graph& graph, const codegen::GraphStorage& storage);

 private:
  std::map<std::string, plan::Expected<Entry>> entries_;  // by the text of graph and storage
};

}  // namespace unisono::network::gpu
