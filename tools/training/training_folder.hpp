#pragma once
/// The folder of a training.

#include <filesystem>
#include <memory>
#include <string>

#include "support/files.hpp"

namespace unisono::training {

/// checkpoint.safetensors, log.jsonl, curves.png, and model.onnx at the end. One process works in it at a time.
class TrainingFolder {
 public:
  /// Makes it, and removes what a killed process left beside files that it was writing. Throws UserError where another
  /// process trains in it, and for a folder that cannot be made.
  explicit TrainingFolder(const std::filesystem::path& folder);

  std::filesystem::path checkpoint() const { return folder_ / "checkpoint.safetensors"; }
  std::filesystem::path log() const { return folder_ / "log.jsonl"; }
  std::filesystem::path curves() const { return folder_ / "curves.png"; }
  std::filesystem::path model() const { return folder_ / "model.onnx"; }

 private:
  void remove_left_overs() const;

  std::filesystem::path folder_;
  std::unique_ptr<support::FileLock> lock_;
};

}  // namespace unisono::training
