#pragma once
/// Diagrams of epilogue graphs and of networks.

#include <string>

#include "figure/boxes.hpp"
#include "passes/partition.hpp"
#include "unisono/graph.hpp"

namespace unisono::figure {

/// Every value a box in the colour of its stage, every store a box below; constants stand inside the boxes that use
/// them. `partition` may be null: then there are no stages.
BoxDiagram diagram_of(const Graph& graph, const passes::Partition* partition, const std::string& title);

}  // namespace unisono::figure
