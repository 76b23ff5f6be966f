#pragma once
/// What the words of a plan mean.

#include <string>
#include <vector>

namespace unisono::command {

/// A line for each part of a plan such as "128x160/5+3 pingpong swap streamed, 40 tiles, …"; docs/plan.md says more.
std::string legend_of(const std::string& plan);

/// The same of the plans of a network's kernels: each word once.
std::string legend_of(const std::vector<std::string>& plans);

}  // namespace unisono::command
