#pragma once
/// What is made of the main store beside writing it: kernels/unisono/tile/resample.cuh.

#include <optional>
#include <string>

#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// Fields of a configuration.
struct Resampling {
  bool only = false;  ///< the store itself is not written; with `upsampled`
  bool pooled = false, upsampled = false;
  bool any() const { return pooled || upsampled; }
  bool operator==(const Resampling&) const = default;
};

Resampling resampling_of(const Resampled& wanted);

/// Adds to each form what is made of its main store. A form that cannot have that is none, unless it is the first.
[[nodiscard]] std::optional<Refusal> resample(Forms& forms, const Resampled& wanted, const Contraction& contraction);

/// Adds to the epilogue what is made of its main store. Refuses to if TMA writes no [m,n] result, if the main store is
/// not the one of which it is to be made, and for a product.
[[nodiscard]] std::optional<Refusal> resample(Epilogue& epilogue, const Resampled& wanted,
                                              const Contraction& contraction);

/// "pooled", "upsampled" and the like, for descriptions of a plan; empty for nothing.
std::string to_string(const Resampling& resampling);

}  // namespace unisono::plan
