// The two real compilers, where they are installed.
#include <cstring>

#include "fixture.hpp"
#include "jit/nvrtc_library.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;

constexpr Header headers[] = {
    {"deep/scale.cuh",
     "#pragma once\n#include \"more.cuh\"\nstatic __device__ float scale(float x) { return x * FACTOR * more(); }\n"},
    {"deep/more.cuh", "#pragma once\nstatic __device__ float more() { return 3.0f; }\n"}};

constexpr const char* source = R"(#include <deep/scale.cuh>
#include "deep/more.cuh"
extern "C" __global__ void some(float* x) {
  __shared__ float y[128];
  y[threadIdx.x] = scale(x[threadIdx.x]);
  __syncthreads();
  x[threadIdx.x] = y[127 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(1024) spills(float* x, int n) {
  float a[300];
  for (int i = 0; i < 300; ++i) a[i] = x[i * n];
  for (int i = 0; i < 300; ++i) x[i * n] = a[299 - i] * a[(i * 7) % 300];
  float b[50];
  for (int i = 0; i < 50; ++i) b[x[i] > 0 ? i : 3] = x[i];
  x[0] = b[n];
}
)";

class CompilersTest : public JitTest, public ::testing::WithParamInterface<CompilerKind> {
 protected:
  void SetUp() override {
    JitTest::SetUp();
    try {
      const auto real = GetParam() == CompilerKind::nvrtc ? make_nvrtc({}) : make_nvcc({});
      real->description();
    } catch (const CompileError& e) {
      GTEST_SKIP() << e.what();
    }
  }
  Jit real() {
    Settings s = settings();
    s.compiler = GetParam();
    return Jit(s);
  }
  static Request some() {
    return {.source = source,
            .headers = headers,
            .entry = "some",
            .title = "some kernel",
            .options = {"-DFACTOR=2.0f"},
            .arch = "sm_90a"};
  }
};

TEST_P(CompilersTest, CompileWithHeadersAndOptions) {
  const Binary cold = real().compile(some());
  EXPECT_FALSE(cold.cached);
  EXPECT_GT(cold.resources.registers, 4);
  EXPECT_LT(cold.resources.registers, 64);
  EXPECT_EQ(cold.resources.static_shared_bytes, 512u);
  EXPECT_EQ(cold.resources.spill_store_bytes, 0u);
  ASSERT_GT(cold.cubin.size(), 4u);
  EXPECT_EQ(std::memcmp(cold.cubin.data(), "\177ELF", 4), 0);
  const Binary warm = real().compile(some());
  EXPECT_TRUE(warm.cached);
  EXPECT_EQ(warm.cubin, cold.cubin);

  Request other = some();
  other.entry = "spills";
  const Binary spills = real().compile(other);
  EXPECT_TRUE(spills.cached);
  EXPECT_GT(spills.resources.spill_store_bytes, 0u);
  EXPECT_GT(spills.resources.spill_load_bytes, 0u);
  EXPECT_GT(spills.resources.stack_bytes, 0u);
  EXPECT_TRUE(warnings.empty());
}

// NVRTC's own cache, which it has on machines with a driver, gives no log: compiled twice, both say what spills
TEST_P(CompilersTest, FurtherReportsOfWhatWasCompiledBefore) {
  Request spills = some();
  spills.entry = "spills";
  for (int i = 0; i < 2; ++i) {
    Settings s = settings();
    s.compiler = GetParam();
    s.cache = root / fmt::format("cache{}", i);
    EXPECT_GT(Jit(s).compile(spills).resources.spill_store_bytes, 0u) << i;
  }
  if (GetParam() == CompilerKind::nvrtc) {
    const auto nvrtc = make_nvrtc({});
    Request request = some();
    const std::string command = nvrtc->compile(request).command, about = nvrtc->description();
    if (about.find("NVRTC 13.") != about.npos) {
      EXPECT_THAT(command, HasSubstr("--no-cache"));
    }
  }
}

TEST_P(CompilersTest, WrongSourceIsReportedWithItsLine) {
  Request wrong = some();
  wrong.source += "\nint here() { return undeclared; }\n";
  try {
    real().compile(wrong);
    FAIL();
  } catch (const CompileError& e) {
    for (const char* words : {"'some kernel'", "source.cu(18)", "undeclared", "sm_90a", "-DFACTOR=2.0f"}) {
      EXPECT_THAT(e.what(), HasSubstr(words));
    }
  }
}

TEST_P(CompilersTest, WrongHeaderIsReportedByItsName) {
  const Header wrong[] = {{"deep/wrong.cuh", "nonsense;\n"}};
  try {
    real().compile(
        {.source = "#include <deep/wrong.cuh>\n", .headers = wrong, .entry = "k", .title = "t", .arch = "sm_90a"});
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("deep/wrong.cuh(1)"));
  }
}

TEST_P(CompilersTest, WrongOptionsAndArchitecturesAreReported) {
  Request wrong = some();
  wrong.options.push_back("--no-such-option");
  EXPECT_THROW(real().compile(wrong), CompileError);
  wrong = some();
  wrong.arch = "sm_1";
  EXPECT_THROW(real().compile(wrong), CompileError);
}

TEST_P(CompilersTest, SourceWithoutKernelIsReported) {
  EXPECT_THROW(real().compile({.source = "int x;", .headers = {}, .entry = "k", .title = "t", .arch = "sm_90a"}),
               CompileError);
}

INSTANTIATE_TEST_SUITE_P(All, CompilersTest, ::testing::Values(CompilerKind::nvrtc, CompilerKind::nvcc),
                         [](const auto& kind) { return kind.param == CompilerKind::nvrtc ? "nvrtc" : "nvcc"; });

using MissingTest = JitTest;

TEST_F(MissingTest, GivenCompilersThatAreNone) {
  overwrite(root / "text", "text");
  for (const CompilerKind kind : {CompilerKind::nvrtc, CompilerKind::nvcc}) {
    for (const char* name : {"text", "absent"}) {
      Settings s = settings();
      s.compiler = kind;
      s.nvcc = s.nvrtc = root / name;
      try {
        Jit(s).compile(request());
        FAIL();
      } catch (const CompileError& e) {
        EXPECT_THAT(e.what(), HasSubstr((root / name).string()));
        EXPECT_THAT(e.what(), HasSubstr("expected"));
      }
    }
  }
}

TEST_F(MissingTest, ProgramThatIsNoNvcc) {
  overwrite(root / "nvcc", "#!/bin/sh\necho I am another\n");
  fs::permissions(root / "nvcc", fs::perms::owner_all);
  Settings s = settings();
  s.compiler = CompilerKind::nvcc;
  s.nvcc = root / "nvcc";
  try {
    Jit(s).compile(request());
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("I am another"));
  }
}

TEST_F(MissingTest, MessageSaysWhatWasLookedForWhereAndWhatToDo) {
  EXPECT_EQ(message_of_missing_compiler("NVRTC", {"/one", "/two"}, "Install it."),
            "no NVRTC was found; looked at:\n  /one\n  /two\nInstall it.");
}

}  // namespace
}  // namespace unisono::jit
