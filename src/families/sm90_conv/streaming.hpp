#pragma once
/// Streamed: in which type tiles wait for their image's statistics, in which order they come, and what L2 keeps.

#include <optional>
#include <vector>

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// A store of f32 keeps its precision unless the caller says otherwise.
StreamedStatistics streamed_statistics(int unit, bool cut, const sm90::ConvProblem& problem,
                                       const sm90::FixedFields& fixed);

/// Why tiles of the same channels cannot follow one another; nothing: they can.
std::optional<plan::Refusal> beyond_channels(const ConvConfig& config);

/// Resident: the orders of tiles that are worth a look where `fixed` leaves them open, that of the configuration first;
/// by channels where an image's tiles are more than the SMs.
std::vector<ResidentStatistics> resident_choices(const ConvConfig& config, const sm90::ConvProblem& problem,
                                                 const plan::Device& device, const sm90::FixedFields& fixed);

/// The orders and hints that are worth a look where `fixed` leaves them and the mode open, those of the configuration
/// first: by channels where tiles across have statistics of their own, hints where tiles that wait exceed half of L2.
/// Who asks for the mode streamed gets rows of tiles without hints, as stored plans do, unless they say more.
std::vector<StreamedStatistics> streamed_choices(const ConvConfig& config, const sm90::ConvProblem& problem,
                                                 const plan::Device& device, const sm90::FixedFields& fixed);

/// Bytes of an image's tiles that wait in memory, as far as they exceed what L2 keeps of them anyway; else 0.
double spilled_beyond_l2(const StreamedStatistics& statistics, const sm90::ConvProblem& problem,
                         const plan::Device& device);

/// Why tiles of this streamed configuration cannot wait so, or come in that order; nothing: they can.
std::optional<plan::Refusal> refuse_streamed(const ConvConfig& config, const sm90::ConvProblem& problem);

}  // namespace unisono::families::sm90_conv
