#include "network/cuda/emit/launch_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "passes/passes.hpp"
#include "unisono/text.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::size_t memory_alignment = 256;

std::size_t up_to_alignment(std::size_t bytes) {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

// Those that do not just wait for the launch ahead of them say so
std::string waits(const std::vector<std::size_t>& after) {
  if (after.empty()) return "; waits for no launch";
  std::vector<std::size_t> numbers;
  for (const std::size_t j : after) numbers.push_back(j + 1);
  return fmt::format("; waits for launch {}", fmt::join(numbers, " and "));
}

}  // namespace

const plan::Expected<GraphKernelCache::Entry>& GraphKernelCache::of(const Graph& graph,
                                                                    const codegen::GraphStorage& storage) {
  std::string key = fmt::format("{} {}\n{}", to_string(storage.element), to_string(storage.accumulator), print(graph));
  for (const auto& [name, type] : storage.operands) key += fmt::format("{} {}\n", name, to_string(type));
  if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
  Graph optimised = passes::run_pipeline(graph);
  auto kernels = codegen::graph_kernels(optimised, storage);
  if (!kernels) return entries_.emplace(std::move(key), std::move(kernels).refusal()).first->second;
  return entries_.emplace(std::move(key), Entry{std::move(optimised), *std::move(kernels)}).first->second;
}

Location LaunchList::scratch(std::size_t bytes) {
  const Location at{Location::Space::scratch, scratch_used_, {}};
  scratch_used_ += up_to_alignment(bytes);
  sequence_.scratch_bytes = std::max(sequence_.scratch_bytes, scratch_used_);
  return at;
}

Location LaunchList::kept(std::size_t bytes) {
  const Location at{Location::Space::kept, sequence_.kept_bytes, {}};
  sequence_.kept_bytes += up_to_alignment(bytes);
  return at;
}

LaunchSequence LaunchList::finish(const plan::Device& device) {
  std::vector<Uses> uses;
  for (const auto& step : sequence_.steps) uses.push_back(step->uses);
  sequence_.after = dependencies(uses, {.sms = device.sms, .threads = device.threads});
  for (std::size_t i = 1; i < uses.size(); ++i)
    if (sequence_.after[i] != std::vector<std::size_t>{i - 1}) sequence_.steps[i]->how += waits(sequence_.after[i]);
  return std::move(sequence_);
}

}  // namespace unisono::network::gpu
