#pragma once
/// Softmax and RMS norm over the channels of a row, found as normalisations: one statistic of a row, exchanged once.

#include <optional>

#include "passes/affine_form.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// A graph, its statistics, and where the affine part begins: at part.result, with `first` as the first step of it.
struct RowForm {
  Graph graph;
  Affine part;
  std::optional<ValueId> first = {};
};

/// x·r, r a function of mean(square(x), over=n), from x on; exp(x - max(x)) / sum(exp(x - max(x))), from there on. A
/// product that something is added to in one operation becomes two. Nothing: the graph reduces something else over a
/// row's channels, or reads what these forms do not have.
std::optional<RowForm> row_form(const Graph& graph);

}  // namespace unisono::passes
