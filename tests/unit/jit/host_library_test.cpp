// Shared objects of host functions and their kernels, where nvcc and CUTLASS are installed; and what is said where
// CUTLASS is not.
#include <cstring>
#include <fstream>

#include "fixture.hpp"
#include "jit/cutlass.hpp"
#include "jit/key.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;

constexpr Header headers[] = {{"own.cuh", "#pragma once\n__global__ void set(int* x) { *x = 7; }\n"}};

constexpr const char* source = R"(#include <cutlass/version.h>
#include "own.cuh"
extern "C" __attribute__((visibility("default"))) int own_run(const void* x, void* stream) {
  set<<<1, 1, 0, cudaStream_t(stream)>>>(static_cast<int*>(const_cast<void*>(x)));
  return int(cudaGetLastError());
}
extern "C" __attribute__((visibility("default"))) int own_version() { return CUTLASS_MAJOR; }
)";

Request own() {
  return {.source = source,
          .headers = headers,
          .entry = "own",
          .title = "a host library",
          .arch = "sm_90a",
          .host_library = true};
}

class HostLibraryTest : public JitTest {
 protected:
  void need_compiler() {
    try {
      make_host_library_compiler({}, {})->description();
    } catch (const CompileError& e) {
      GTEST_SKIP() << e.what();
    }
  }
  /// A folder with the one header by which CUTLASS is known.
  std::filesystem::path pretended(const std::string& text) {
    const auto folder = root / "cutlass";
    std::filesystem::create_directories(folder / "include" / "cutlass");
    std::ofstream(folder / "include" / "cutlass" / "version.h") << text;
    return folder;
  }
};

TEST_F(HostLibraryTest, IsASharedObjectInTheCache) {
  need_compiler();
  if (IsSkipped()) return;
  const Binary cold = Jit(settings()).compile(own());
  EXPECT_FALSE(cold.cached);
  EXPECT_GT(cold.resources.registers, 0);
  ASSERT_GT(cold.cubin.size(), 20u);
  EXPECT_EQ(std::memcmp(cold.cubin.data(), "\177ELF", 4), 0);
  EXPECT_EQ(std::to_integer<int>(cold.cubin[16]), 3) << "ET_DYN";
  const Binary warm = Jit(settings()).compile(own());
  EXPECT_TRUE(warm.cached);
  EXPECT_EQ(warm.cubin, cold.cubin);
}

TEST_F(HostLibraryTest, StandsBesideKernelsInABatch) {
  need_compiler();
  if (IsSkipped()) return;
  Settings s = settings();
  s.compiler = CompilerKind::nvcc;
  Request kernel{.source = "extern \"C\" __global__ void empty() {}",
                 .headers = {},
                 .entry = "empty",
                 .title = "empty",
                 .arch = "sm_90a"};
  std::vector<std::size_t> progress;
  const std::vector<Request> requests{own(), kernel, own()};
  const auto made = Jit(s).compile(requests, [&](std::size_t done, std::size_t total, const std::string&) {
    EXPECT_EQ(total, 3u);
    progress.push_back(done);
  });
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[0].cubin, made[2].cubin);
  EXPECT_NE(made[0].key, made[1].key);
  EXPECT_EQ(progress, (std::vector<std::size_t>{1, 2, 3}));
}

TEST_F(HostLibraryTest, AProgramThatIsWrongIsReportedWithItsLog) {
  need_compiler();
  if (IsSkipped()) return;
  Request wrong = own();
  wrong.source = "int own_run() { return undeclared; }";
  try {
    Jit(settings()).compile(wrong);
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("undeclared"));
  }
}

TEST_F(HostLibraryTest, SaysWhichPartOfCutlassIsMissing) {
  need_compiler();
  if (IsSkipped()) return;
  Settings s = settings();
  s.cutlass = pretended("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n");
  Request convolution = own();
  convolution.source = "#include <cutlass/util/packed_stride.hpp>\n" + convolution.source;
  try {
    Jit(s).compile(convolution);
    FAIL();
  } catch (const CompileError& error) {
    const auto missing = s.cutlass / "tools" / "util" / "include" / "cutlass" / "util" / "packed_stride.hpp";
    EXPECT_THAT(error.what(), HasSubstr(missing.string() + " is not there"));
  }
}

TEST(HostLibraryKey, DiffersFromAKernelsOfTheSameText) {
  Request kernel = own();
  kernel.host_library = false;
  EXPECT_NE(program_key(own()), program_key(kernel));
}

TEST_F(HostLibraryTest, FindsCutlassWhereItIsSaid) {
  const auto folder = pretended("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n");
  EXPECT_EQ(find_cutlass(folder).version, "4.2.0");
  EXPECT_EQ(find_cutlass(folder).include, folder / "include");
  EXPECT_EQ(find_cutlass(folder / "include").include, folder / "include");
}

TEST_F(HostLibraryTest, SaysWhereItLookedForCutlass) {
  try {
    find_cutlass(root / "nowhere");
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("nowhere"), HasSubstr("UNISONO_CUTLASS")));
  }
}

}  // namespace
}  // namespace unisono::jit
