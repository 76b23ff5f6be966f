#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "codegen/inlined.hpp"
#include "fixture.hpp"
#include "support/golden.hpp"
#include "support/sources.hpp"

namespace unisono::codegen {
namespace {

void expect_files(std::string_view ending, std::span<const Header> headers, const std::string& one_of_them) {
  std::map<std::string, std::string> files, embedded;
  const std::filesystem::path folder = test::source_path("kernels");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ending)
      files[entry.path().lexically_relative(folder).string()] = test::text_of(entry.path());
  for (const Header& h : headers) embedded[std::string(h.name)] = h.text;
  ASSERT_TRUE(files.contains(one_of_them));
  for (const auto& [name, text] : files) {
    ASSERT_TRUE(embedded.contains(name)) << name;
    EXPECT_EQ(embedded[name], text) << name;
  }
  EXPECT_EQ(embedded.size(), files.size());
}

TEST(DeviceHeaders, AreTheFilesUnderKernels) { expect_files(".cuh", device_headers(), "unisono/sm90/conv_fprop.cuh"); }

TEST(EmittedHeaders, AreTheFilesUnderKernels) { expect_files(".hpp", emitted_headers(), "unisono/emitted/launch.hpp"); }

}  // namespace
}  // namespace unisono::codegen
