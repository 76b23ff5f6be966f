// unisono_gpu_bench: `unisono bench` as a program that can be carried to a machine with a GPU.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/bench.hpp"
#include "bench/command_line.hpp"
#include "unisono/error.hpp"

namespace {

int report(const char* kind, const std::exception& error, int code) {
  std::fprintf(stderr, "unisono_gpu_bench: %s%s\n", kind, error.what());
  return code;
}

}  // namespace

// Exit codes as those of unisono: docs/command.md
int main(int argc, char** argv) {
  CLI::App app("Times Unisono's kernels beside cuDNN on a GPU.", "unisono_gpu_bench");
  unisono::bench::Options options;
  unisono::bench::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return unisono::bench::run(options);
  } catch (const unisono::UserError& error) {
    return report("", error, 2);
  } catch (const unisono::Unsupported& error) {
    return report("not supported: ", error, 3);
  } catch (const unisono::CompileError& error) {
    return report("compiler: ", error, 4);
  } catch (const unisono::DeviceError& error) {
    return report("device: ", error, 5);
  } catch (const std::exception& error) {
    return report("internal error, please report it: ", error, 1);
  }
}
