#pragma once
/// Transposed convolutions of stride 1, the gradients of such convolutions' inputs, as convolutions: output pixel p
/// takes tap f of input pixel p + pad - f·dilation, which is a convolution by the taps in reverse with a padding of (R
/// - 1)·dilation - pad. The filter is read as it lies, (C, R, S, K).

#include <optional>

#include "plan/as_convolution.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::families::sm90 {

/// Why a transposed convolution does not run by its taps in reverse.
std::optional<plan::Refusal> beyond_flipped(const ConvTranspose2d& t);

/// The task by the taps in reverse, whatever loads it; nothing: no kernel has taps in reverse for it, since it is of
/// another stride or channels first.
std::optional<plan::ConvTask> with_flipped_taps(const ConvTranspose2d& t);

/// The same of a depthwise convolution whose groups have one output channel, by ordinary loads: of any type, and any
/// number of channels.
std::optional<plan::Refusal> beyond_flipped_depthwise(const ConvTranspose2d& t);

/// Those as tasks.
std::optional<plan::ConvTask> by_flipped_depthwise(const Contraction& contraction);

/// plan::as_convolution() by the taps in reverse, if the contraction is a transposed convolution that runs so. The
/// padding may be negative: that of the transposed convolution then leaves out more than the filter reaches.
std::optional<plan::ConvTask> by_flipped_taps(const Contraction& contraction);

}  // namespace unisono::families::sm90
