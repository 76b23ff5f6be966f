#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <span>

#include "codegen/inlined.hpp"
#include "fixture.hpp"
#include "support/golden.hpp"

namespace unisono::codegen {
namespace {

TEST(DeviceHeaders, AreTheFilesUnderKernels) {
  std::map<std::string, std::string> files, embedded;
  const std::filesystem::path folder = UNISONO_KERNELS_DIR;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder).string()] = test::text_of(entry.path());
  for (const std::span<const Header> all : {device_headers(), emitted_headers()})
    for (const Header& h : all) embedded[std::string(h.name)] = h.text;
  ASSERT_TRUE(files.contains("unisono/sm90/conv_fprop.cuh"));
  for (const auto& [name, text] : files) {
    ASSERT_TRUE(embedded.contains(name)) << name;
    EXPECT_EQ(embedded[name], text) << name;
  }
  EXPECT_EQ(embedded.size(), files.size());
}

}  // namespace
}  // namespace unisono::codegen
