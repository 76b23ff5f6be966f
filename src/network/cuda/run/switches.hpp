#pragma once
/// What the environment switches on or off for networks on a GPU, to compare.

#include "unisono/network.hpp"

namespace unisono::network::gpu {

/// UNISONO_FILTERS_AHEAD: whether kernels load constant filters before the launches ahead of theirs have ended; on by
/// default. Throws UserError for a value other than on and off.
bool with_filters_ahead();

/// What NetworkOptions::attention asks for, or else UNISONO_ATTENTION (own, cudnn or auto). Throws UserError for
/// another value of the variable.
AttentionKernels attention_kernels(AttentionKernels asked);

}  // namespace unisono::network::gpu
