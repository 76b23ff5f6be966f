#pragma once
/// A cache of its own for each test, and a fake compiler.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "jit/cache.hpp"
#include "jit/entry.hpp"
#include "jit/jit.hpp"
#include "support/fake_compiler.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {

namespace fs = std::filesystem;

inline std::string contents(const fs::path& path) { return support::read_file(path).value_or(""); }

inline void overwrite(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline std::size_t count_in(const fs::path& folder) {
  return fs::is_directory(folder) ? std::distance(fs::directory_iterator(folder), fs::directory_iterator()) : 0;
}

class JitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "unisono_jit_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
    fs::create_directory(root / "run");
    fs::create_directory(root / "tmp");
    ::setenv("XDG_RUNTIME_DIR", (root / "run").c_str(), 1);
    ::setenv("TMPDIR", (root / "tmp").c_str(), 1);
    cache = root / "cache";
  }
  void TearDown() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    ::unsetenv("TMPDIR");
    fs::remove_all(root);
  }

  Settings settings() {
    Settings s;
    s.cache = cache;
    s.warn = [this](const std::string& text) { warnings.push_back(text); };
    return s;
  }
  Jit jit() { return Jit(settings(), compiler); }

  static Request request(const std::string& source = "kernel k") {
    return {.source = source, .headers = {}, .entry = "k", .title = "title", .arch = "sm_90a"};
  }
  static std::vector<std::byte> expected(const Request& r, const std::string& version = "1") {
    return testing::FakeCompiler::result(r, version).cubin;
  }

  fs::path root, cache;
  std::shared_ptr<testing::FakeCompiler> compiler = std::make_shared<testing::FakeCompiler>();
  std::vector<std::string> warnings;
};

}  // namespace unisono::jit
