#pragma once
/// What whole networks take on a GPU, as replays of one CUDA graph.

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "unisono/network.hpp"

namespace unisono::bench {

using Clock = std::chrono::steady_clock;
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

double seconds_since(Clock::time_point start);

/// Shapes of images (N,C,H,W) as NetworkOptions::layout nhwc wants them; others as they are.
Shapes channels_last(Shapes shapes);

/// A network's inputs and outputs in the GPU's memory, channels last, as a training framework hands them over: floats
/// of 16 bits, uniform between -1 and 1, and integers and bool of zeros.
struct NetworkTensors {
  std::vector<std::unique_ptr<gpu::Buffer>> memory;
  std::map<std::string, ConstTensorView> inputs;
  std::map<std::string, TensorView> outputs;

  /// `type`: bf16 or f16. Shapes are those of memory.
  NetworkTensors(const NetworkExecutable& network, const Shapes& shapes, DType type);
  /// The outputs' bytes.
  std::vector<std::vector<std::byte>> results() const;
  std::size_t input_bytes() const;
  std::size_t output_bytes() const;

 private:
  void* add(std::int64_t elements, DType type);
};

/// Times of one replay: the median over rounds, each of so many replays that they last some milliseconds.
struct ReplayTimes {
  double us = 0;
  double spread = 0;               ///< of the rounds, over the median
  double host_us = 0;              ///< of putting one replay on an idle stream, by a thread that polled for its end
  double host_after_sleep_us = 0;  ///< the same, by a thread that slept while it waited
  double launch_host_us = 0;       ///< of a bound launch, whose first input is bound anew before each
  int inner = 1;                   ///< replays a round
};

ReplayTimes time_replays(const NetworkExecutable& network, const NetworkTensors& t, int rounds);

/// Each kernel by itself between events: the median of so many runs.
std::vector<StepTime> time_kernels(const NetworkExecutable& network, const NetworkTensors& t, int runs);

nlohmann::json kernels_json(const std::vector<StepTime>& steps, const DeviceReport& report);
void print_kernels(const std::vector<StepTime>& steps, const DeviceReport& report);

}  // namespace unisono::bench
