#pragma once
/// Contractions that no kernels of our own compute.

#include <optional>

#include "plan/as_convolution.hpp"
#include "plan/refusal.hpp"

namespace unisono::families {

/// Why our own kernels do not compute a filter's gradient and grouped products, and what does; nothing: it is none of
/// these.
std::optional<plan::Refusal> refuse_rare(const plan::ConvTask& task);

}  // namespace unisono::families
