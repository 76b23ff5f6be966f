#pragma once
/// Streamed: in which type tiles wait for their image's statistics, in which order they come, and what L2 keeps.

#include <optional>

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// A store of f32 keeps its precision unless the caller says otherwise.
StreamedStatistics streamed_statistics(int unit, const sm90::ConvProblem& problem, const sm90::FixedFields& fixed);

/// Why tiles of this streamed configuration cannot wait so, or come in that order; nothing: they can.
std::optional<plan::Refusal> refuse_streamed(const ConvConfig& config, const sm90::ConvProblem& problem);

}  // namespace unisono::families::sm90_conv
