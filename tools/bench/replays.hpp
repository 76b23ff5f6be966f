#pragma once
/// Timing by replays of a graph.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/contender.hpp"
#include "bench/statistics.hpp"
#include "gpu/device.hpp"

namespace unisono::bench {

/// Puts one execution on a stream.
using Enqueue = std::function<void(CUstream)>;

/// A graph of executions that take the sets in turn.
class Replays : public Contender {
 public:
  /// Runs each set once, then captures `rounds` × sets.size() executions. `what` is for messages. Throws DeviceError.
  Replays(std::vector<Enqueue> sets, int rounds, std::string what);
  ~Replays() override;
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  /// Replays once.
  double time() override;
  /// Kernels of the graph for each execution.
  double kernels_each() const { return kernels_each_; }

 private:
  std::vector<Enqueue> sets_;  // own memory that the graph's kernels read and write, such as a workspace
  gpu::TestStream stream_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
  CUevent start_ = nullptr, stop_ = nullptr;
  int executions_ = 0;
  double kernels_each_ = 0;
  std::string what_;
};

/// A replay whose executions last about `target_us` together, as few turns over all sets as that takes.
std::unique_ptr<Replays> replays_of(const std::vector<Enqueue>& sets, const std::string& what, double target_us = 2000);

/// Under a long load the chip lowers its clock, by how much depends on who ran before: so each turn starts from rest.
struct Protocol {
  int rounds = 5;      ///< in which the contenders take turns
  int replays = 8;     ///< replays in a contender's turn, after two that do not count
  double rest = 0.5;   ///< seconds without work before the first round: a search for a plan is a load, too
  double pause = 0.1;  ///< seconds without work before each turn
  int hot_rounds = 3;  ///< more rounds, without pauses, of which the first does not count; Timing::hot
};

/// Measures the contenders in turn, and returns their times in the order given.
std::vector<Timing> measure(const std::vector<Contender*>& contenders, const Protocol& protocol);

/// A short measurement, to choose: the median of three replays.
double glance(Replays& contender);

}  // namespace unisono::bench
