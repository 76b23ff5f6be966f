#pragma once
/// Transposed convolutions of stride 2 as convolutions of stride 1, one for each of the output's four phases: phase
/// (i, j) has the output's pixels (2y + i, 2x + j), and every other tap of the filter. All of them have as many taps,
/// where some may be none of the filter's and count as zero.

#include <cstdint>
#include <optional>

#include "plan/as_convolution.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::families::sm90 {

/// Why a transposed convolution does not run by phases.
std::optional<plan::Refusal> beyond_phases(const ConvTranspose2d& t);

/// Taps of a phase along an axis of the filter.
constexpr std::int64_t phase_taps(std::int64_t taps) { return (taps + 1) / 2; }

/// Whether every other phase has a tap less along an axis of the filter.
constexpr bool taps_differ(std::int64_t taps) { return taps % 2 != 0; }

/// Pixels of the largest phase, phase 0, along an axis of the output.
constexpr std::int64_t phase_pixels(std::int64_t pixels) { return (pixels + 1) / 2; }

/// plan::as_convolution() by phases, if the contraction is a transposed convolution that has them.
std::optional<plan::ConvTask> by_phases(const Contraction& contraction);

}  // namespace unisono::families::sm90
