/// What TiledExecutable says of itself.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/cpu/tiled_executable.hpp"

namespace unisono::cpu {

namespace {

std::string name_of(const Graph& g, ValueId v) {
  return g[v].name.empty() ? fmt::format("{} of value {}", to_string(g[v].op), v) : g[v].name;
}

}  // namespace

std::string TiledExecutable::describe_stage(std::size_t index) const {
  const Plan& plan = parts_.plan;
  const StagePlan& stage = plan.stages[index];
  if (!stage.walks_tiles && stage.uniform_stores.empty() && stage.uniform.instructions.empty()) return {};
  std::string s = fmt::format("stage {}: ", index + 1);
  if (!stage.walks_tiles) {
    s += fmt::format("{} instructions, no pass over the rows", stage.uniform.instructions.size());
  } else {
    s += fmt::format("{} instructions for each block of {} rows", stage.tile.instructions.size(), stage.block_rows);
    if (!stage.uniform.instructions.empty()) s += fmt::format(", {} before", stage.uniform.instructions.size());
  }
  std::vector<std::string> reduced, stored;
  for (const Accumulation& a : stage.accumulations)
    for (const auto& r : a.outputs) reduced.emplace_back(to_string(r.op));
  for (std::size_t i = 0; i < plan.graph.stores.size(); ++i)
    if (plan.store_stage[i] == static_cast<int>(index)) stored.push_back(plan.graph.stores[i].name);
  if (!reduced.empty()) s += fmt::format("; reduces over rows: {}", fmt::join(reduced, ", "));
  if (!stored.empty()) s += fmt::format("; stores {}", fmt::join(stored, ", "));
  return s + "\n";
}

std::string TiledExecutable::describe() const {
  const Plan& plan = parts_.plan;
  const Extents& e = plan.extents;
  std::string s = fmt::format("{} on the CPU, {} thread{}, {} vectors\n", parts_.title, parts_.threads,
                              parts_.threads == 1 ? "" : "s", parts_.unit->name);
  if (parts_.source) {
    s += "accumulator: " + parts_.source->describe() + "\n";
    if (parts_.second) s += "second accumulator: " + parts_.second->describe() + "\n";
  } else {
    s += "accumulator: not computed, as nothing reads it\n";
  }
  const int products = parts_.second ? 2 : 1;
  s += fmt::format("tiles: {} strips of {} rows ({} KiB of accumulators), reductions by segments of {} rows\n",
                   parts_.tiling.strips(), parts_.tiling.strip_rows(),
                   (parts_.tiling.strip_rows() * e.cols * 4 * products + 1023) / 1024,
                   parts_.tiling.segment_height() * e.width);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) s += describe_stage(i);
  std::vector<std::string> kept;
  if (plan.keeps_accumulator) kept.emplace_back("the accumulators");
  for (const KeptBuffer& b : plan.kept) kept.push_back(name_of(plan.graph, b.value));
  s += fmt::format("kept between stages: {}\n", kept.empty() ? "nothing" : fmt::format("{}", fmt::join(kept, ", ")));
  for (const std::string& note : plan.notes) s += "note: " + note + "\n";
  return s;
}

}  // namespace unisono::cpu
