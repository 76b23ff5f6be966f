#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "fixture.hpp"
#include "support/golden.hpp"

namespace unisono::codegen {
namespace {

TEST(DeviceHeaders, AreTheFilesUnderKernels) {
  std::map<std::string, std::string> files, embedded;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(UNISONO_KERNELS_DIR) / "unisono"))
    files["unisono/" + entry.path().filename().string()] = test::text_of(entry.path());
  for (const Header& h : device_headers()) embedded[std::string(h.name)] = h.text;
  ASSERT_TRUE(files.contains("unisono/conv_fprop.cuh"));
  for (const auto& [name, text] : files) {
    ASSERT_TRUE(embedded.contains(name)) << name;
    EXPECT_EQ(embedded[name], text) << name;
  }
  EXPECT_EQ(embedded.size(), files.size());
}

}  // namespace
}  // namespace unisono::codegen
