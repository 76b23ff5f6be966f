#pragma once
/// Running a compiled network and measuring it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "media/npy.hpp"
#include "reference/network/evaluate.hpp"
#include "unisono/network.hpp"

namespace unisono::command {

/// A dense tensor of f32, row-major, images as (N,C,H,W).
struct Tensor32 {
  std::vector<std::int64_t> shape;
  std::vector<float> value;
};

/// The same of any dtype that a network takes or gives.
using Tensors = std::map<std::string, media::Array>;

media::Array to_array(const Tensor32& tensor);
/// Throws UserError unless the dtype is a float; f64 is rounded.
Tensor32 to_tensor32(const media::Array& array, const std::string& name);

struct Timing {
  double first_ms = 0;  ///< the first run, which plans
  /// The times of the other runs; of the first if there are no others.
  double fastest_ms = 0, median_ms = 0, p90_ms = 0, p99_ms = 0;
  int runs = 0;  ///< after the first
};

/// From the time of the first run and those of the others.
Timing timing_of(double first_ms, const std::vector<double>& others_ms);

struct Execution {
  Tensors outputs;
  Timing timing;
  std::vector<StepTime> profile;  ///< if asked for: of each step the median of the timed runs
  std::vector<Timing> steps;      ///< and how these times vary; empty if no run was timed
};

/// Runs once, and then `repeat` times to measure. Inputs have the network's dtypes. Outputs are poisoned (floats with
/// NaN) before the first run. `device`: the network's. Throws UserError, before anything is allocated, where this
/// process may not use as much memory as the run takes.
Execution execute(const NetworkExecutable& network, const Tensors& inputs, int repeat, bool profile = false,
                  Device device = Device::cpu);

/// The middle one (of an even number the mean of the two), or 0 of none.
double median(std::vector<double> values);

/// The smallest of the values that at least `percent` % of them do not exceed (nearest rank), or 0 of none.
/// `percent`: 0 to 100.
double percentile(std::vector<double> values, int percent);

/// Fills with NaN, and what is no float with a pattern of bits: what is not written is seen.
void poison(media::Array& array);

/// For the reference. Throws Unsupported for an integer that no f64 is.
float64::Tensors64 to_float64(const Tensors& tensors);

/// Uniform random numbers of 0 to 1: the same for a seed on every machine.
Tensor32 random_tensor(std::vector<std::int64_t> shape, std::uint64_t seed);
/// The same rounded to a float dtype; for integers and bool zeros and ones.
media::Array random_array(std::vector<std::int64_t> shape, DType dtype, std::uint64_t seed);

/// Appends `more` along the first axis. Throws UserError if the other extents differ.
void append(media::Array& array, const media::Array& more);

/// Most memory that this process has had so far, in bytes.
std::size_t peak_memory();

}  // namespace unisono::command
