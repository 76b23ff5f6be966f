#include "gpu/own_process.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "gpu/options.hpp"
#include "support/subprocess.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

std::string said_by(const std::string& test) {
  const auto own = std::filesystem::read_symlink("/proc/self/exe").string();
  return support::run({.arguments = {own, "--device", std::to_string(options().device), "--gtest_filter=" + test,
                                     "--gtest_also_run_disabled_tests"},
                       .folder = {},
                       // in a shard of this program: of one test, most shards have none
                       .unset = {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_SHARD_STATUS_FILE"}})
      .output;
}

void say_what_ends(const std::function<void()>& run) {
  try {
    run();
    std::printf("not found\n");
  } catch (const DeviceError& e) {
    std::printf("found: %s\n", e.what());
  }
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace unisono::gpu
