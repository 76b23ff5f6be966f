#pragma once
/// `unisono bench`, and unisono_gpu_bench, which is the same for machines without the libraries of the CPU backend.

#include <filesystem>
#include <string>
#include <vector>

namespace unisono::bench {

struct Options {
  std::vector<std::filesystem::path> cases;  ///< files, one suite each
  std::filesystem::path out;                 ///< JSON; a folder gets SUITE.json, and for several suites it must be one
  std::string only;                          ///< cases whose name contains it
  int plans = 1;                             ///< best-predicted candidates that are tried
  bool sweep = false;                        ///< all legal candidates
  std::string device = "cuda";
  int gpu = 0;
  unsigned long long seed = 1;
  int rounds = 5, replays = 8;     ///< Protocol
  double rest = 0.5, pause = 0.1;  ///< seconds, Protocol
  int hot_rounds = 3;              ///< Protocol
  bool precompile = false;         ///< compile all kernels into the cache, and end; needs no GPU
  int jobs = 0;                    ///< compilations at once; 0: one a core
  bool once = false;               ///< launch each contender once, for a profiler, and end
  int engine = 1;                  ///< which of a library's proposals `once` launches
  bool list = false;               ///< print the cases as JSON, and end; needs no GPU
  bool resume = false;             ///< leave out the cases that `out` already has
  bool verify = true;
  bool cudnn = true;
  bool bare = true;          ///< time our own bare convolution, too
  double matmul_tflops = 0;  ///< given ceilings; 0: measured
  double copy_tbps = 0;
  std::filesystem::path libraries;  ///< folder of cuDNN and cuBLAS, if the linker does not know them
  std::filesystem::path beside;     ///< socket of a program whose contenders take turns, too; empty: none
  double beside_limit = 600;        ///< seconds that it may take for an answer: it compiles a case
  std::string commit;               ///< commit of the sources; empty: as git says
};

/// Runs the suites, prints a table for each, writes the JSON after each case. Returns 0; 1 if a case failed or
/// disagrees with the reference; 5 if the GPU's context broke (`resume` goes on behind the case at fault). Throws what
/// the library throws for what concerns all cases.
int run(const Options& options);

}  // namespace unisono::bench
