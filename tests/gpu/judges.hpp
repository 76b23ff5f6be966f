#pragma once
/// Judges outcomes on all cores while the GPU goes on.

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gpu/testbed.hpp"

namespace unisono::gpu {

class Judges {
 public:
  /// Judges beside the caller; waits first if as many are at work as there are cores. `problems` are known already.
  void take(Outcome outcome, std::string problems, std::string description) {
    while (pending_.size() >= most_) collect();
    pending_.push_back(std::async(std::launch::async, [o = std::move(outcome), problems = std::move(problems),
                                                       description = std::move(description)] {
      std::string text = problems + judge(o);
      return text.empty() ? text : text + description;
    }));
  }
  /// All that was found wrong, in the order of taking.
  std::vector<std::string> finish() {
    while (!pending_.empty()) collect();
    return std::move(wrong_);
  }

 private:
  void collect() {
    if (std::string text = pending_.front().get(); !text.empty()) wrong_.push_back(std::move(text));
    pending_.erase(pending_.begin());
  }
  const std::size_t most_ = std::max(2u, std::thread::hardware_concurrency());
  std::vector<std::future<std::string>> pending_;
  std::vector<std::string> wrong_;
};

/// Runs every case and expects agreement at every element.
void expect_agreement(const std::vector<Case>& cases);

}  // namespace unisono::gpu
