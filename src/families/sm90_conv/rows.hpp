#pragma once
/// Normalisations over the channels of each pixel, a row: kernels/unisono/epilogue/row_statistics.cuh.

#include <optional>

#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Why tiles of a configuration of the mode `rows` cannot normalise, alone or together; nothing: they can.
std::optional<plan::Refusal> refuse_rows(const ConvConfig& config, const sm90::ConvProblem& problem);

/// Whether deferred rows are worth a candidate beside others of the same configuration: where consumer groups have a
/// next tile, whose main loop the exchange may overlap.
bool deferral_pays(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d,
                   const sm90::FixedFields& fixed);

}  // namespace unisono::families::sm90_conv
