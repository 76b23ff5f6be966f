#pragma once
/// Timing of one problem's plans: each once at a glance, those near the best again in turn.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/replay.hpp"
#include "tuner/operands.hpp"
#include "tuner/problem.hpp"

namespace unisono::tuner {

/// A plan in the race.
struct Runner {
  std::size_t trial = 0;  ///< index into the problem's trials
  Executable executable;
  double us = 0;    ///< time of one launch
  std::string out;  ///< why it cannot win any more; empty: it can
};

struct Timing {
  std::size_t rotating_bytes = std::size_t{160} << 20;  ///< operands of one replay, beyond L2
  int glances = 3;                                      ///< replays of which the median is taken
  int rounds = 3, replays = 4;  ///< those near the best take turns: rounds, and replays of each in a round
};

class Stopwatch {
 public:
  Stopwatch(int device_index, Arena& arena, Stream stream, const Timing& timing)
      : device_index_(device_index), arena_(arena), stream_(stream), timing_(timing) {}

  /// Microseconds of a launch by a median of few replays of one graph, with operands that are in no cache.
  double glance(const Problem& problem, const Executable& executable);
  /// The median of more, in turn with the others; one time each, in their order.
  std::vector<double> compare(const Problem& problem, const std::vector<const Executable*>& finalists);

 private:
  struct Entry {
    std::unique_ptr<cuda::Replay> replay;
    double launches = 1;
  };
  Entry entry(const Problem& problem, const Executable& executable);
  /// Microseconds of a launch, of each replay.
  std::vector<double> times(const Entry& entry, int replays) const;

  int device_index_;
  Arena& arena_;
  Stream stream_;
  Timing timing_;
};

/// Times a plan that is ready. A plan that cannot run is `out`. Throws DeviceError if the GPU's context is broken.
Runner enter(Stopwatch& stopwatch, const Problem& problem, const Trial& trial, std::size_t index, jit::Binary binary,
             int device_index);

/// Index of the runner that wins, after those near the best have been timed again; the first trial wins unless another
/// is faster by more than noise. Nothing if all are out.
std::optional<std::size_t> winner(Stopwatch& stopwatch, const Problem& problem, std::vector<Runner>& runners);

}  // namespace unisono::tuner
