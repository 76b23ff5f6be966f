#pragma once
/// How an analysis says no: with the text of the value at fault and the reason.

#include <string>

#include "unisono/graph.hpp"

namespace unisono::plan {

/// "h = acc + bias[n]": the value as the text form writes it.
std::string text_of(const Graph& graph, ValueId id);

/// Throws Unsupported.
[[noreturn]] void refuse(const Graph& graph, ValueId id, const std::string& reason);

}  // namespace unisono::plan
