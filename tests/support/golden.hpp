#pragma once
/// Recorded files under tests/golden.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/files.hpp"

namespace unisono::test {

/// Text of a file that must be there.
inline std::string text_of(const std::filesystem::path& path) {
  const auto text = support::read_file(path);
  EXPECT_TRUE(text) << path << " cannot be read";
  return text.value_or("");
}

/// Expects the text that is recorded in a file. After a change that is meant, UNISONO_WRITE_GOLDEN=1 writes it anew.
inline void expect_golden(const std::filesystem::path& path, const std::string& text) {
  if (std::getenv("UNISONO_WRITE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, text_of(path)) << path << ": if the change is meant, run this test with UNISONO_WRITE_GOLDEN=1, "
                                 << "which writes the file anew, and look at the difference (docs/contributing.md)";
}

}  // namespace unisono::test
