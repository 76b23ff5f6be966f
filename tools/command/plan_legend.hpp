#pragma once
/// What the words of a plan mean.

#include <string>

namespace unisono::command {

/// A line for each part of a plan such as "128x160/5+3 pingpong swap streamed, 40 tiles, …"; docs/plan.md says more.
std::string legend_of(const std::string& plan);

}  // namespace unisono::command
