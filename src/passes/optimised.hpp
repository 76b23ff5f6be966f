#pragma once
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// The graph after run_pipeline(); CompileOptions::on_pass hears of each pass.
Graph optimised(const Graph& graph, const CompileOptions& options);

}  // namespace unisono::passes
