#pragma once
/// Finding the fastest plan of a GPU's kernels by trying some of them, for this machine and for good.
///
/// What is found is kept in the file that UNISONO_TUNING names, else in ~/.cache/unisono/tuning.db, and used by every
/// compile() of the same problem on such a GPU from then on (docs/tuning.md). No plan is kept whose kernel did not
/// agree with the float64 reference.

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
  std::size_t problems = 0, finished = 0;  ///< distinct ones
  std::size_t kernels = 0, timed = 0;      ///< plans that are tried
  double seconds = 0, seconds_left = 0;    ///< left: an estimate, below 0 if there is none yet
};

struct TuningOptions {
  int device_index = 0;
  std::size_t candidates = 10;     ///< plans of a problem that are tried, at least 1
  double seconds = 0;              ///< nothing new is compiled after about so long; 0: no limit
  int threads = 0;                 ///< compilations at once; 0: one a core but one
  bool again = false;              ///< also what has been tuned on this machine
  std::filesystem::path database;  ///< empty: as UNISONO_TUNING says
  /// Operands of so many bytes are used in turn, so that L2 holds none of them; 0: always the same.
  std::size_t rotating_bytes = std::size_t{160} << 20;
  std::function<void(const TuningProgress&)> progress = {};  ///< called in the calling thread, some times a second
};

/// What became of one problem.
struct TunedProblem {
  std::string problem;   ///< "conv2d 8x64x64x320 -> 320, 3x3, pad 1"
  std::string epilogue;  ///< its class, for people
  std::size_t uses = 1;  ///< how often it stood among what was to be tuned
  std::string plan;      ///< CompileOptions::plan of the winner; empty if there is none
  double us = 0;         ///< its time; operands not in the cache
  double before_us = 0;  ///< that of the plan that would have been taken
  double predicted_us = 0;
  std::size_t timed = 0;              ///< plans
  bool known = false;                 ///< tuned before: nothing was done
  std::vector<std::string> rejected;  ///< plans that did not run, or that the reference did not agree with, and why
  std::string error;                  ///< why nothing was kept; empty: something was
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

/// Tunes the distinct problems of a network for these input shapes (as in NetworkExecutable::memory). Throws likewise.
TuningReport tune(const Network& network, const NetworkOptions& options,
                  const std::map<std::string, std::vector<std::int64_t>>& inputs, const TuningOptions& tuning = {});

}  // namespace unisono
