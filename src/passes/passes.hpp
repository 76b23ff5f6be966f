#pragma once
/// The rewrites between the graph that a user writes and the graph that a backend runs.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "unisono/graph.hpp"

namespace unisono::passes {

/// One pass: a pure function of the graph.
struct Pass {
  std::string_view name;
  std::string_view purpose;  ///< one line, for logs and docs
  bool exact;                ///< the reference gives the same bits before and after; else it may reassociate
  Graph (*run)(const Graph&);
};

/// All passes in the order in which they run.
std::span<const Pass> pipeline();

using Observer = std::function<void(const Pass& pass, const Graph& before, const Graph& after)>;

/// Runs the pipeline. The result has no normalisations and no softmax (they are split into reductions and elementwise
/// nodes), no dead nodes, and every value is computed once. In debug builds the verifier runs after each pass.
Graph run_pipeline(const Graph& graph, const Observer& observer = {});

}  // namespace unisono::passes
