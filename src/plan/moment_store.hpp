#pragma once
/// Moments of the main store, stored beside it for a normalisation that a later launch applies:
/// kernels/unisono/exchange/moment_store.cuh.

#include <cstdint>
#include <optional>
#include <string>

#include "plan/refusal.hpp"

namespace unisono::plan {

struct Epilogue;

/// Which an epilogue asks for.
struct StoredMoments {
  std::string name;           ///< by which Arguments::outputs binds them
  std::int64_t channels = 0;  ///< those of an entry are a divisor of this, and begin at its multiples; 0: none
};

/// Why no kernel stores moments of what this epilogue stores.
std::optional<Refusal> refuse_moments(const Epilogue& epilogue);

/// Adds them to the epilogue. Throws UserError for a name that is taken or a number of channels that does not divide
/// the output's, Refused with what refuse_moments() answers.
void store_moments(Epilogue& epilogue, const StoredMoments& wanted, std::int64_t output_channels);

}  // namespace unisono::plan
