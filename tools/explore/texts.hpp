#pragma once
/// Pages and what they show as texts, without a JSON library: the interface of libunisono_explore.so, which the Python
/// package loads.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"

namespace unisono::explore {

/// JSON of explore() (exploration.hpp) of a network, for the GPU of the options or an H200.
std::string network_text(const Network& network, const std::string& title, const NetworkOptions& options,
                         const std::map<std::string, std::vector<std::int64_t>>& shapes);

/// JSON of explore() of an epilogue; with a contraction, of its kernel on the GPU of the options or an H200.
std::string kernel_text(const Graph& graph, const std::optional<Contraction>& contraction,
                        const CompileOptions& options);

/// The page of JSON without a layout: laid_out(), then page_of(). Throws UserError for a text that is not JSON.
std::string page_text(const std::string& data);

}  // namespace unisono::explore
