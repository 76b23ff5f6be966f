#include "bench/command_line.hpp"

#include <CLI/CLI.hpp>

#include "bench/between.hpp"

namespace unisono::bench {

void add_options(CLI::App& app, Options& o) {
  app.add_option("CASES", o.cases, "Files of cases, one suite each, such as bench/cases/block.txt")->required();
  app.add_option("--json", o.out, "Write the results here; for several suites a folder")->type_name("OUT");
  app.add_option("--only", o.only, "Only cases whose name contains this")->type_name("TEXT");
  app.add_option("--plans", o.plans, "Time this many of the best-predicted plans and report the fastest")
      ->check(between(1, 100000))
      ->capture_default_str();
  app.add_flag("--sweep", o.sweep, "Time all legal plans, and report each");
  app.add_option("--device", o.device, "What to measure")->check(CLI::IsMember({"cuda"}))->capture_default_str();
  app.add_option("--gpu", o.gpu, "Number of the GPU")->check(between(0, 1023))->capture_default_str();
  app.add_option("--seed", o.seed, "The seed of the operands")->capture_default_str();
  app.add_option("--rounds", o.rounds, "Rounds, in which the contenders take turns")
      ->check(between(1, 1000))
      ->capture_default_str();
  app.add_option("--replays", o.replays, "Timed replays of a contender in a round")
      ->check(between(1, 1000))
      ->capture_default_str();
  app.add_option("--rest", o.rest,
                 "Idle seconds before a case's first round, in which the clock recovers from the search for a plan")
      ->check(between(0.0, 60.0))
      ->capture_default_str();
  app.add_option("--pause", o.pause, "Idle seconds before each turn, in which the clock recovers")
      ->check(between(0.0, 60.0))
      ->capture_default_str();
  app.add_option("--hot-rounds", o.hot_rounds,
                 "Further rounds without pauses, for times under load; the first does not count")
      ->check(between(0, 1000))
      ->capture_default_str();
  app.add_flag("--precompile", o.precompile, "Compile all kernels into the cache (UNISONO_CACHE_DIR); needs no GPU");
  app.add_option("--jobs", o.jobs, "Parallel compilations; 0: one per core")
      ->check(between(0, 1024))
      ->capture_default_str();
  auto* once =
      app.add_flag("--once", o.once, "Launch each contender of a case once, outside of a graph, for a profiler (ncu)");
  app.add_option("--engine", o.engine, "Which of cuDNN's or cuBLASLt's proposals --once launches")
      ->check(between(1, 1000))
      ->capture_default_str()
      ->needs(once);
  app.add_flag("--list", o.list, "Print the cases as JSON; needs no GPU");
  app.add_flag("--resume", o.resume, "Skip cases that OUT already has")->needs("--json");
  app.add_flag("!--no-verify", o.verify, "Do not compare with the float64 reference");
  app.add_flag("!--no-cudnn", o.cudnn, "Do not time cuDNN");
  app.add_flag("!--no-bare", o.bare, "Do not time our own bare convolution");
  app.add_option("--matmul-tflops", o.matmul_tflops, "The GPU's peak TFLOP/s, instead of measuring it")
      ->check(between(1e-6, 1e6));
  app.add_option("--copy-tbps", o.copy_tbps, "The GPU's peak TB/s, instead of measuring it")->check(between(1e-6, 1e6));
  app.add_option("--libraries", o.libraries,
                 "The folder of libcudnn and libcublas, if they are not found by themselves")
      ->type_name("FOLDER");
  app.add_option("--beside", o.beside,
                 "The Unix socket of a program with further contenders, such as bench/peers/torch_gpu.py")
      ->type_name("SOCKET");
  app.add_option("--beside-limit", o.beside_limit, "Seconds to wait for an answer of this program")
      ->check(between(1e-6, 1e6))
      ->capture_default_str();
  app.add_option("--commit", o.commit, "The commit of the sources, for the JSON (default: git's)");
}

}  // namespace unisono::bench
