#pragma once
/// Everything that a page shows of what was compiled.

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/device.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"

namespace unisono::explore {

/// How the times of a step vary.
struct Spread {
  double fastest_ms = 0, p90_ms = 0, p99_ms = 0;
};

/// A run that was measured.
struct Measured {
  std::vector<StepTime> profile;  ///< with median times
  double run_ms = 0;              ///< the median of whole runs; 0: not known
  int runs = 0;
  std::vector<Spread> spread = {};  ///< by step; or empty
};

/// What a network became for these shapes, on the device of the options: on a GPU for `gpu`, or the one at hand, or an
/// H200. `measured`: empty, or of a run with these shapes there.
nlohmann::json explore(const Network& network, const std::string& title, const NetworkOptions& options,
                       const std::map<std::string, std::vector<std::int64_t>>& shapes, const Measured& measured = {},
                       const std::optional<plan::Device>& gpu = {});

/// What an epilogue became. With a contraction: the GPU's kernel.
nlohmann::json explore(const Graph& graph, const std::optional<Contraction>& contraction, const CompileOptions& options,
                       const std::optional<plan::Device>& gpu = {});

/// Places the boxes of a page that others have put together: {"lines", "launch" if it is one}, in the order in which
/// they run, with edges {"from", "to"} that lead forward.
nlohmann::json laid_out(nlohmann::json data);

/// The page: one file, which fetches nothing. `data`: what explore() or laid_out() gives.
std::string page_of(const nlohmann::json& data);

}  // namespace unisono::explore
