#pragma once
/// What is made of the main store beside writing it: kernels/unisono/tile/resample.cuh.

#include <cstddef>
#include <optional>
#include <string>

#include "unisono/contraction.hpp"
#include "unisono/resampled.hpp"

namespace unisono::plan {

struct Epilogue;

/// Fields of a configuration.
struct Resampling {
  bool only = false;  ///< the store itself is not written; with `enlarged`
  bool pooled = false, enlarged = false;
  bool any() const { return pooled || enlarged; }
  /// Tensor maps, or what stands in their place, behind ConvParams; of them, maps of the enlarged tensor.
  int copies() const { return !enlarged ? 0 : only ? 3 : 4; }
  int maps() const { return copies() + (pooled ? 1 : 0); }
  bool operator==(const Resampling&) const = default;
};

Resampling resampling_of(const Resampled& wanted);

/// The store that can be resampled: the first that TMA writes.
std::optional<std::size_t> main_store(const Epilogue& epilogue);

/// Adds to the epilogue what is made of its main store. Throws UserError for names that are taken and for a contraction
/// without an image; Unsupported if TMA writes no [m,n] result.
void resample(Epilogue& epilogue, const Resampled& wanted, const Contraction& contraction);

/// "pooled", "enlarged" and the like, for descriptions of a plan; empty for nothing.
std::string to_string(const Resampling& resampling);

}  // namespace unisono::plan
