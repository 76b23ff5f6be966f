#pragma once
/// Moments of the main store, stored beside it for a normalisation that a later launch applies:
/// kernels/unisono/exchange/moment_store.cuh.

#include <cstdint>
#include <optional>

#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"

namespace unisono::plan {

/// Why no kernel stores moments of what this epilogue stores.
std::optional<Refusal> refuse_moments(const Epilogue& epilogue);

/// Adds them to the epilogue, unless refuse_moments() has a reason, which it returns. Throws UserError for a name that
/// is taken or a number of channels that does not divide the output's.
[[nodiscard]] std::optional<Refusal> store_moments(Epilogue& epilogue, const StoredMoments& wanted,
                                                   std::int64_t output_channels);

}  // namespace unisono::plan
