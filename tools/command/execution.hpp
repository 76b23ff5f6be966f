#pragma once
/// Running a compiled network and measuring it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coda/network.hpp"
#include "command/network_reference.hpp"

namespace coda::command {

/// A dense tensor, row-major, images as (N,C,H,W).
struct Tensor32 {
  std::vector<std::int64_t> shape;
  std::vector<float> value;
};
using Tensors32 = std::map<std::string, Tensor32>;

struct Timing {
  double first_ms = 0;   ///< the first run, which plans
  double median_ms = 0;  ///< of the others; the first if there are no others
  int runs = 0;          ///< after the first
};

struct Execution {
  Tensors32 outputs;
  Timing timing;
  std::vector<StepTime> profile;  ///< if asked for: of each step the median of the timed runs
};

/// Runs once, and then `repeat` times to measure. Outputs are poisoned with NaN before the first run.
Execution execute(const NetworkExecutable& network, const Tensors32& inputs, int repeat, bool profile = false);

/// The middle one (of an even number the mean of the two), or 0 of none.
double median(std::vector<double> values);

/// For the reference.
Tensors64 to_float64(const Tensors32& tensors);

/// Uniform random numbers of 0 to 1: the same for a seed on every machine.
Tensor32 random_tensor(std::vector<std::int64_t> shape, std::uint64_t seed);

/// Appends `more` along the first axis. Throws UserError if the other extents differ.
void append(Tensor32& tensor, const Tensor32& more);

/// Most memory that this process has had so far, in bytes.
std::size_t peak_memory();

}  // namespace coda::command
