#include "runtime/cuda/driver_version.hpp"

#include <gtest/gtest.h>

#include "support/files.hpp"

namespace unisono::cuda {
namespace {

std::optional<std::string> version_in(const std::string& text) {
  const support::TemporaryFolder folder{std::filesystem::temp_directory_path()};
  support::write_file(folder.path() / "version", text);
  return kernel_module_version(folder.path() / "version");
}

TEST(DriverVersion, OfBothKindsOfKernelModule) {
  EXPECT_EQ(version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
                       "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"),
            "535.183.01");
  EXPECT_EQ(
      version_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@host)\n"
                 "GCC version:  gcc version 13.3.0\n"),
      "580.95.05");
}

TEST(DriverVersion, IsAbsentWhereNothingSaysIt) {
  EXPECT_FALSE(version_in(""));
  EXPECT_FALSE(version_in("NVRM version: unknown\nGCC version:  gcc version 11.4.0\n"));
  EXPECT_FALSE(kernel_module_version("/nonexistent/version"));
}

TEST(DriverVersion, BothHalvesCount) {
  EXPECT_EQ(driver_text("580.95.05", 13000), "580.95.05, CUDA 13.0");
  EXPECT_EQ(driver_text(std::nullopt, 12040), "CUDA 12.4");
}

}  // namespace
}  // namespace unisono::cuda
