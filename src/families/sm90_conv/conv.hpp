#pragma once
/// Plans for one convolution and its epilogue on sm_90a: which tile, cluster, schedule and way of normalising.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "families/interface/override.hpp"
#include "families/interface/plan.hpp"
#include "families/sm90_conv/config.hpp"
#include "plan/as_convolution.hpp"
#include "plan/device.hpp"
#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::families::sm90_conv {

/// Parts of the workspace, in bytes from its start; its memory must be zero before the first launch.
struct Workspace {
  std::size_t bytes = 0, exits = 0, slots = 0, teams = 0, flags = 0, partials = 0;
  std::size_t folds = 0, fold_results = 0, fold_rows = 0, fold_counters = 0;  ///< general; floats, then counters
};

/// One way to run one problem.
struct ConvPlan : families::Plan {
  ConvConfig config;
  int images = 0, rows = 0, tiles_m = 0, tiles_n = 0, tiles = 0, patches_across = 0, channel_blocks = 0, splits = 1;
  int slots_per_image = 0, team_slots = 1, teams_per_image = 0;
  Workspace workspace;
};

/// The convolution that a plan of this configuration runs.
plan::ConvTask as_planned(const Contraction& contraction, const ConvConfig& config);

struct ConvCandidate {
  ConvPlan plan;
  std::optional<plan::Refusal> refusal;  ///< none: legal
};

/// All candidates, legal ones first, the fastest predicted first. A transposed convolution that has phases runs by
/// them; the candidates without are listed only if none of those is legal, or the override says load=gather. None for
/// an override that names what these kernels do not have. Throws UserError for a contraction that is wrong and
/// Unsupported for one that no convolution kernel of this device can serve whatever the plan (dtype, groups, …).
std::vector<ConvCandidate> conv_candidates(const plan::ConvTask& task, const plan::Epilogue& epilogue,
                                           const plan::Device& device, const plan::Override& fixed = {});

/// "128x160/5+3 pingpong resident, 104 blocks, 229 KB": for logs and `unisono explain`.
std::string describe(const ConvPlan& plan);
/// Lines for `unisono explain`: what is multiplied and loaded how, why the plan has its mode.
std::string reasons(const ConvPlan& plan, const plan::ConvTask& task, const plan::Epilogue& epilogue,
                    const plan::Device& device);

}  // namespace unisono::families::sm90_conv
