#pragma once
/// What a training step of an ONNX model takes on a GPU, with its mean squared error, on random inputs that lie there.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "network_times.hpp"

namespace unisono::bench {

struct TrainingBench {
  std::string model;
  std::int64_t batch = 8;  ///< the symbols in the inputs' shapes
  DType precision = DType::bf16;
  int device = 0, steps = 200;  ///< of a round
  bool kernels = false;         ///< time each launch by itself, too
};

/// The time of a step with the next one queued, the host's to begin a step, launches.
nlohmann::json time_training(const TrainingBench& b);
/// The launches instead. Needs no GPU.
void print_training_plan(const TrainingBench& b);

}  // namespace unisono::bench
