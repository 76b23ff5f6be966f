#pragma once
/// Plans for one convolution and its epilogue on sm_90a: which tile, cluster, schedule and way of normalising.

#include <optional>
#include <string>
#include <vector>

#include "families/interface/family.hpp"
#include "families/sm90_conv/plan.hpp"
#include "plan/as_convolution.hpp"
#include "plan/device.hpp"
#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::families::sm90_conv {

/// The convolution that a plan of this configuration runs.
plan::ConvTask as_planned(const plan::ConvTask& task, const ConvConfig& config);

struct ConvCandidate {
  ConvPlan plan;
  std::optional<plan::Refusal> refusal;  ///< none: legal
};

/// All candidates, legal ones first, the fastest predicted first. A transposed convolution that has phases runs by
/// them, one of stride 1 by flipped taps; other candidates are listed only if none of those is legal, or the override
/// says load=gather. Tiles
/// whose accumulators wait in memory (ConvConfig::spills) are listed only where nothing else serves the epilogue. None
/// for an override that names what these kernels do not have, and for what sm90::refuse_problem() refuses. Throws
/// UserError for a contraction that is wrong.
std::vector<ConvCandidate> conv_candidates(const Workload& workload, const PlanOverride& fixed = {});

/// "128x160/5+3 pingpong resident, 104 CTAs, 229 KB": for logs and `unisono explain`.
std::string describe(const ConvPlan& plan);
/// Lines for `unisono explain`: what is multiplied and loaded how, why the plan has its mode.
std::string reasons(const ConvPlan& plan, const plan::ConvTask& task, const plan::Epilogue& epilogue);

}  // namespace unisono::families::sm90_conv
