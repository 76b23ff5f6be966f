#pragma once
/// The command line of unisono_gpu_tests.

#include <cstdint>
#include <string>

namespace unisono::gpu {

struct Options {
  std::uint64_t seed = 20261;  ///< --seed N: of everything that is random
  int families = 40;           ///< --families N: of the random test, with 8 shapes each
  int replays = 10000;         ///< --replays N: of the tests of many replays
  int device = 0;              ///< --device N
  long long endurance = 0;     ///< --endurance N: launches, instead of the tests
  bool delays = false;         ///< --delays: the endurance run takes kernels with random delays
  int processes = 1;           ///< --processes N: that many at once, each with its share of the launches
  bool precompile = false;     ///< --precompile: compiles all kernels into the cache; needs no GPU
  bool plan = false;           ///< --plan: plans and generates all kernels, and counts them; needs no GPU, no compiler
  bool sanitizer = false;      ///< --sanitizer: a small case of each mode, for compute-sanitizer
  bool first_failure = false;  ///< --first-failure: --sanitizer ends at the first problem that fails
  int broad = 0;               ///< --broad N: so many random problems of every kind, instead of the tests
  int broad_case = -1;         ///< --broad-case N: one of them
  int broad_first = 0;         ///< --broad-first N: without those before
  bool evt = false;            ///< --evt: graphs by CUTLASS's visitors, instead of the tests
  std::string arch = {};       ///< --arch NAME: of --evt the graphs of one architecture; absent: those that run
  int jobs = 0;                ///< --jobs N: of --precompile so many compilations at once; 0: one a core
  std::string shard = {};      ///< --shard I/N: of --precompile every N-th kernel, from the I-th on (0 to N - 1)
  int seconds = 0;             ///< --seconds N: --broad and --endurance end after that; 0: when they are done
  bool small = false;          ///< --small: of the random problems none that is too large for the emulated GPU
  bool verbose = false;        ///< --verbose: prints each problem before it runs
  int plans = 0;               ///< --plans N: compiles so many kernels that planners may choose
  std::string syntax = {};     ///< --syntax COMMAND: by the host's compiler
  std::string walk = {};       ///< --walk FOLDER: all kernels that planners may choose
  std::string only;  ///< --only TEXT: of these, those whose plan has the text; of --precompile, whose title has it
};

/// What was given; read by tests.
const Options& options();

}  // namespace unisono::gpu
