// What of the environment reaches nvcc, by a program in its place that prints what it sees.
#include "fixture.hpp"
#include "jit/key.hpp"

namespace unisono::jit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class NvccEnvironmentTest : public JitTest {
 protected:
  void SetUp() override {
    JitTest::SetUp();
    overwrite(root / "nvcc",
              "#!/bin/sh\n"
              "case $1 in --version) echo 'release 13.0, V13.0.88'; exit 0;; esac\n"
              "echo \"append=$NVCC_APPEND_FLAGS ccbin=$NVCC_CCBIN cpath=$CPATH includes=$CPLUS_INCLUDE_PATH"
              " exec=$GCC_EXEC_PREFIX dependencies=$DEPENDENCIES_OUTPUT.\"\n"
              "exit 1\n");
    fs::permissions(root / "nvcc", fs::perms::owner_all);
  }
  void TearDown() override {
    for (const char* name :
         {"NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "DEPENDENCIES_OUTPUT"})
      ::unsetenv(name);
    JitTest::TearDown();
  }
  std::string key() const {
    const auto nvcc = make_nvcc(root / "nvcc");
    return binary_key(program_key(request()), *nvcc, request());
  }
  std::string log() {
    Settings s = settings();
    s.compiler = CompilerKind::nvcc;
    s.nvcc = root / "nvcc";
    try {
      Jit(s).compile(request());
    } catch (const CompileError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(NvccEnvironmentTest, FlagsArePartOfTheKeyAndOfTheCommand) {
  const std::string plain = key();
  ::setenv("NVCC_APPEND_FLAGS", "-G", 1);
  const std::string debug = key();
  EXPECT_NE(debug, plain);
  EXPECT_THAT(log(), AllOf(HasSubstr("append=-G"), HasSubstr("NVCC_APPEND_FLAGS=-G")));
  ::setenv("NVCC_CCBIN", "/usr/bin/clang", 1);
  EXPECT_NE(key(), debug);
  ::unsetenv("NVCC_APPEND_FLAGS");
  ::unsetenv("NVCC_CCBIN");
  EXPECT_EQ(key(), plain);
  ::setenv("NVCC_PREPEND_FLAGS", "-G", 1);
  EXPECT_NE(key(), plain);
  ::unsetenv("NVCC_PREPEND_FLAGS");
}

TEST_F(NvccEnvironmentTest, FoldersOfOtherHeadersAreHidden) {
  const std::string plain = key();
  for (const char* name : {"CPATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "DEPENDENCIES_OUTPUT"})
    ::setenv(name, "/somewhere", 1);
  EXPECT_EQ(key(), plain);
  EXPECT_THAT(log(), AllOf(HasSubstr("cpath= includes= exec= dependencies=."), Not(HasSubstr("/somewhere"))));
}

}  // namespace
}  // namespace unisono::jit
