// coda_gpu_bench: `coda bench` as a program that can be carried to a machine with a GPU.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/bench.hpp"
#include "bench/command_line.hpp"
#include "coda/error.hpp"

namespace {

int report(const char* kind, const std::exception& error, int code) {
  std::fprintf(stderr, "coda_gpu_bench: %s%s\n", kind, error.what());
  return code;
}

}  // namespace

// Exit codes as those of coda: docs/command.md
int main(int argc, char** argv) {
  CLI::App app("Times Coda's kernels beside cuDNN on a GPU.", "coda_gpu_bench");
  coda::bench::Options options;
  coda::bench::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return coda::bench::run(options);
  } catch (const coda::UserError& error) {
    return report("", error, 2);
  } catch (const coda::Unsupported& error) {
    return report("not supported: ", error, 3);
  } catch (const coda::CompileError& error) {
    return report("compiler: ", error, 4);
  } catch (const coda::DeviceError& error) {
    return report("device: ", error, 5);
  } catch (const std::exception& error) {
    return report("internal error, please report it: ", error, 1);
  }
}
