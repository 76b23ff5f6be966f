#pragma once
/// The way of an epilogue graph through the passes, step by step.

#include <filesystem>
#include <string>
#include <vector>

#include "passes/log.hpp"
#include "passes/partition.hpp"
#include "unisono/graph.hpp"

namespace unisono::command {

/// A stage of the partition, in the text form with every value named.
struct StageText {
  std::vector<std::string> values;      ///< "h = acc + bias[n]"
  std::vector<std::string> reductions;  ///< names of those values that are complete only at the stage's end
  std::vector<std::string> kept;        ///< names of values that a later stage reads
  std::vector<std::string> stores;      ///< "y : bf16", "p = max_pool_2x2 : bf16"
  std::vector<std::string> effects;
};

struct GraphExplanation {
  std::string written;  ///< the graph as parsed
  std::vector<passes::LogEntry> passes;
  Graph result;  ///< result of the passes, which see whole stores only
  std::string result_text;
  passes::Partition partition;
  std::vector<std::string> once;  ///< values that are computed before all tiles
  std::vector<StageText> stages;
  std::string kernel;  ///< what runs it over one contraction; empty if none was given
};

/// Runs the pipeline and the partition. Throws UserError for a graph that is not legal.
GraphExplanation explain_graph(const Graph& graph);

/// For people to read.
std::string to_text(const GraphExplanation& explanation);

/// One JSON object.
std::string to_json(const GraphExplanation& explanation);

/// The result as Graphviz text and as a picture, where a path is given.
void write_drawings(const GraphExplanation& explanation, const std::filesystem::path& dot,
                    const std::filesystem::path& svg);

}  // namespace unisono::command
