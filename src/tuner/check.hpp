#pragma once
/// Comparing what a kernel wrote with float64, before its plan is kept.

#include <cstdint>
#include <functional>
#include <string>

#include "tuner/device_kernels.hpp"
#include "tuner/problem.hpp"

namespace unisono::tuner {

struct Verdict {
  std::int64_t elements = 0, outside = 0, unclaimed = 0;
  double worst = 0;     ///< largest error over its tolerance
  bool repeats = true;  ///< a second run gave the same bits
  bool ok() const { return elements > 0 && outside == 0 && repeats && unclaimed * 2 < elements; }
};
/// "3 of 4096 elements are outside of their tolerances, the worst by a factor of 81"
std::string to_string(const Verdict& verdict);

/// Runs twice on poisoned outputs, with the accumulators computed in float64 on the GPU. What is left, the processor's
/// part, is the function returned, which may be called in another thread. Of problems with up to `most_elements`
/// outputs every element is compared; of larger ones whole images (or rows of a product) at the beginning and at the
/// end, if an image's outputs depend on that image alone, else all. Throws what enqueue throws.
std::function<Verdict()> start_check(const Problem& problem, const Executable& executable,
                                     const families::Plan::Numerics& numerics, const DeviceKernels& kernels,
                                     int device_index, Stream stream, std::int64_t most_elements = 1 << 21);

/// True if an image's outputs depend on that image alone.
bool images_are_apart(const Graph& graph);
/// The same of rows.
bool rows_are_apart(const Graph& graph);

}  // namespace unisono::tuner
