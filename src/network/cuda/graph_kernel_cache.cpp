#include "network/cuda/graph_kernel_cache.hpp"

#include <fmt/format.h>

#include <utility>

#include "passes/passes.hpp"
#include "unisono/text.hpp"

namespace unisono::network::gpu {

const plan::Expected<GraphKernelCache::Entry>& GraphKernelCache::of(const Graph& graph,
                                                                    const codegen::GraphStorage& storage) {
  std::string key = fmt::format("{} {}\n{}", to_string(storage.element), to_string(storage.accumulator), print(graph));
  for (const auto& [name, type] : storage.operands) key += fmt::format("{} {}\n", name, to_string(type));
  for (const std::string& name : storage.stores_in_f32) key += fmt::format("{} stored in f32\n", name);
  if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
  Graph optimised = passes::run_pipeline(graph);
  auto kernels = codegen::graph_kernels(optimised, storage);
  if (!kernels) return entries_.emplace(std::move(key), std::move(kernels).refusal()).first->second;
  return entries_.emplace(std::move(key), Entry{std::move(optimised), *std::move(kernels)}).first->second;
}

}  // namespace unisono::network::gpu
