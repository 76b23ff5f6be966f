#pragma once
/// Comparing what a kernel wrote with the float64 reference.

#include <functional>
#include <string>

#include "bench/data.hpp"
#include "families/interface/plan.hpp"
#include "unisono/executable.hpp"

namespace unisono::bench {

struct Verdict {
  std::int64_t elements = 0, outside = 0, unclaimed = 0;
  double worst = 0;          ///< largest error over its tolerance
  double error = 0;          ///< error of the element that comes nearest to its tolerance, or passes it by most
  double tolerance = 0;      ///< tolerance of the same element
  double largest_error = 0;  ///< largest absolute error of all elements
  bool repeats = true;       ///< a second run gave the same bits

  bool ok() const { return outside == 0 && unclaimed == 0 && repeats && elements > 0; }
};

/// Runs twice on poisoned outputs and computes the accumulator in float64 on the GPU; the rest of the work, that of the
/// processor alone, is in the function returned, which may be called in another thread.
std::function<Verdict()> start_verifying(const Case& c, const Executable& executable, const Data& data,
                                         const families::Plan::Numerics& numerics);

/// True if an image's outputs depend on that image alone, so that images can be judged apart.
bool images_are_apart(const Graph& graph);

/// The same of the rows of a product.
bool rows_are_apart(const Graph& graph);

}  // namespace unisono::bench
