#pragma once
/// What the passes did to a graph, for people to read.

#include <string>
#include <vector>

#include "passes/passes.hpp"

namespace unisono::passes {

/// One pass of one run.
struct LogEntry {
  std::string pass;
  std::string purpose;
  bool exact = true;
  bool changed = false;  ///< its text
  std::string text;      ///< the graph after the pass, in the text form
};

struct Log {
  std::vector<LogEntry> passes;
  Graph result;
};

/// Runs the pipeline and keeps the graph after each pass.
Log record_pipeline(const Graph& graph);

/// The log as text: a heading for each pass, then the graph, or "(unchanged)".
///
///     -- fuse_operators: recognise activations that are written out (may reassociate)
///     store silu(acc) : f32
///
///     -- canonicalise: bring equal expressions to one spelling (exact)
///     (unchanged)
std::string to_string(const std::vector<LogEntry>& log);

}  // namespace unisono::passes
