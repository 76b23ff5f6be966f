#pragma once
/// Finds the fastest plans of GPU kernels by measurement.
///
/// Results are kept in the file that UNISONO_TUNING names, else in ~/.cache/unisono/tuning.db, and used by every later
/// compile() of the same problem on such a GPU (docs/tuning.md). A plan is kept only if its kernel agrees with the
/// float64 reference.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"

namespace unisono {

/// How far tuning is.
struct TuningProgress {
  std::size_t problems = 0, finished = 0;  ///< distinct problems
  std::size_t kernels = 0, timed = 0;      ///< plans to try
  double seconds = 0, seconds_left = 0;    ///< elapsed; an estimate, below 0 if there is none yet
};

struct TuningOptions {
  int device_index = 0;
  std::size_t candidates = 10;     ///< plans to try for each problem, at least 1
  double seconds = 0;              ///< time limit; nothing new is compiled after about 80 % of it; 0: no limit
  int threads = 0;                 ///< concurrent compilations; 0: one per core, less one
  bool again = false;              ///< tune known problems again
  std::filesystem::path database;  ///< empty: as UNISONO_TUNING says
  /// Bytes of operand sets that launches use in turn, so that none is found in L2; 0: always the same set.
  std::size_t rotating_bytes = std::size_t{160} << 20;
  std::function<void(const TuningProgress&)> progress = {};  ///< called in the calling thread, a few times per second
};

/// The result for one problem.
struct TunedProblem {
  std::string problem;   ///< "conv2d 8x64x64x320 -> 320, 3x3, pad 1"
  std::string epilogue;  ///< a readable description of its class
  std::size_t uses = 1;  ///< how often the problem occurred
  std::string plan;      ///< CompileOptions::plan of the winner; empty if there is none
  double us = 0;         ///< its time in microseconds, with cold operands
  double before_us = 0;  ///< the time of the plan that would have been taken otherwise
  double predicted_us = 0;
  std::size_t timed = 0;              ///< the number of plans that were timed
  bool known = false;                 ///< tuned before, so nothing was done
  std::vector<std::string> rejected;  ///< plans that failed or disagreed with the reference, and why
  std::string error;                  ///< why nothing was kept; empty if a plan was
};

struct TuningReport {
  std::string device;
  std::filesystem::path database;
  std::vector<TunedProblem> problems;
  double seconds = 0;
};

/// Tunes one problem. Throws UserError, Unsupported and CompileError as compile() does, UserError for a database that
/// cannot be written, and DeviceError if the GPU fails.
TuningReport tune(const Contraction& contraction, const Graph& graph, const CompileOptions& options = {},
                  const TuningOptions& tuning = {});

/// Tunes the distinct problems of a network for these input shapes (as in NetworkExecutable::memory). Throws as above.
TuningReport tune(const Network& network, const NetworkOptions& options,
                  const std::map<std::string, std::vector<std::int64_t>>& inputs, const TuningOptions& tuning = {});

}  // namespace unisono
