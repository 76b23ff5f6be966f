#pragma once
#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Multiplies factors of whole rows, columns or images with one another before elements: (x·y)·z → x·(y·z), where y, z
/// and y·z are coarser than x. So split_normalisations writes rstd and scale; authors of texts, and PyTorch, multiply
/// by one after the other. Rounds differently, so no pass of the pipeline: tuning finds plans of the other spelling by
/// it.
Graph gather_factors(const Graph& graph);

const RowTable& factor_rows();

}  // namespace unisono::passes
