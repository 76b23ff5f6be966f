#pragma once
/// What `unisono train` reads: one JSON file.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "training/schedule.hpp"
#include "unisono/training.hpp"

namespace unisono::training {

/// Where an input of the network, or the target, comes from.
struct DataArray {
  std::string array;  ///< its name in the shards
  double scale = 1;   ///< a factor of its elements
};

struct Config {
  std::filesystem::path file = {}, model = {}, folder = {};
  std::vector<std::filesystem::path> training = {}, validation = {};  ///< shards
  std::map<std::string, DataArray> inputs = {};                       ///< by the input's name
  Loss loss = {};
  TrainerOptions trainer = {};
  Schedule schedule = {};
  std::int64_t batch = 1;
  std::uint64_t seed = 0;
  std::int64_t report_every = 10, validate_every = 0, checkpoint_every = 0;  ///< steps; 0: at the end
  std::vector<std::string> notes = {};                                       ///< keys that have no effect here, and why
  std::string text =
      {};  ///< what a training that goes on must have in common: all but folder, device, threads, *_every
};

/// Paths are relative to the file's folder. Throws UserError, which names file, key and what was expected.
Config read_config(const std::filesystem::path& file);

}  // namespace unisono::training
