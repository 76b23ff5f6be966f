// Libraries that are none, too old, or lack a function; and plans without a GPU by the tests' own cuDNN.

#include "runtime/cudnn/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/cudnn/attention.hpp"

namespace unisono::cudnn {
namespace {

using testing::HasSubstr;

const std::filesystem::path folder = UNISONO_TEST_CUDNN;  // of tests/emulator

std::string refusal_of(const std::filesystem::path& file) {
  const auto library = load(file);
  return library ? "none" : library.refusal().first();
}

struct Fault {
  explicit Fault(const char* what) { ::setenv("UNISONO_FAKE_CUDNN", what, 1); }
  ~Fault() { ::unsetenv("UNISONO_FAKE_CUDNN"); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

TEST(CudnnLibrary, IsBound) {
  const auto library = load(folder / "cudnn" / "libcudnn.so.9");
  ASSERT_TRUE(library) << library.refusal().first();
  EXPECT_EQ(library->version_text(), "9.20.0");
  EXPECT_EQ(library->path.filename(), "libcudnn.so.9");
}

TEST(CudnnLibrary, SaysWhyThereIsNone) {
  EXPECT_THAT(refusal_of("/nowhere/libcudnn.so.9"),
              testing::AllOf(HasSubstr("cuDNN cannot be loaded: /nowhere/libcudnn.so.9"), HasSubstr("UNISONO_CUDNN")));
  EXPECT_THAT(refusal_of(folder / "incomplete_cudnn" / "libcudnn.so.9"),
              HasSubstr("has no function cudnnBackendExecute; expected cuDNN 9.8 or later"));
  const Fault old("old");
  EXPECT_THAT(refusal_of(folder / "cudnn" / "libcudnn.so.9"), HasSubstr("is cuDNN 9.7.0; expected 9.8 or later"));
}

TEST(CudnnLibrary, IsLookedForAgain) {
  ::setenv("UNISONO_CUDNN", "/nowhere", 1);
  EXPECT_FALSE(library());
  ::setenv("UNISONO_CUDNN", (folder / "cudnn").c_str(), 1);  // a folder
  EXPECT_TRUE(library());
  ::unsetenv("UNISONO_CUDNN");
}

AttentionProblem problem(std::int64_t width) {
  const Matrices m{.extents = {2, 3, 50, width}, .strides = {150 * width, 50 * width, width, 1}};
  return {.q = m, .k = m, .v = m, .y = m, .biases = {}, .scale = 0.5F};
}

TEST(CudnnAttention, IsPlannedForADeviceThatIsDescribed) {
  const auto library = load(folder / "cudnn" / "libcudnn.so.9");
  ASSERT_TRUE(library);
  const plan::Device device;
  const Target target{.handle = nullptr, .described = &device};
  const auto made = plan_attention(*library, problem(64), target);
  ASSERT_TRUE(made) << made.refusal().first();
  EXPECT_EQ((*made)->text(), "attention by cuDNN 9.20.0, engine 7");
  EXPECT_EQ((*made)->workspace_bytes(), 256u);
  const auto odd = plan_attention(*library, problem(12), target);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.refusal().first(), "cuDNN proposes no engine");
}

// Where there is a real one: UNISONO_REAL_CUDNN names it. It needs NVRTC, and libcuda.so.1 or its stub
TEST(CudnnAttention, IsAcceptedByARealLibrary) {
  const char* given = std::getenv("UNISONO_REAL_CUDNN");
  if (given == nullptr)
    GTEST_SKIP() << "UNISONO_REAL_CUDNN names no libcudnn.so.9 (scripts/check_cudnn_plans.sh installs one)";
  const auto library = load(given);
  ASSERT_TRUE(library) << library.refusal().first();
  const plan::Device device;
  const auto refusal = [&](const AttentionProblem& p) {
    const auto made = plan_attention(*library, p, {.handle = nullptr, .described = &device});
    if (made) std::printf("%s, %zu bytes of workspace\n", (*made)->text().c_str(), (*made)->workspace_bytes());
    return made ? "" : made.refusal().first();
  };
  for (const std::int64_t width : {8, 40, 64, 80, 128, 160, 256}) EXPECT_EQ(refusal(problem(width)), "") << width;
  EXPECT_NE(refusal(problem(12)), "");
  AttentionProblem f16 = problem(64);
  for (Matrices* m : {&f16.q, &f16.k, &f16.v, &f16.y}) m->type = DType::f16;
  EXPECT_EQ(refusal(f16), "");
  AttentionProblem grouped = problem(64);  // packed columns, three heads that share keys, values of another width
  grouped.q.strides = {50 * 320, 64, 320, 1};
  grouped.k = {.extents = {2, 1, 77, 64}, .strides = {77 * 192, 192, 192, 1}};
  grouped.v = {.extents = {2, 1, 77, 128}, .strides = {77 * 192, 192, 192, 1}};
  grouped.y = {.extents = {2, 3, 50, 128}, .strides = {50 * 384, 128, 384, 1}};
  EXPECT_EQ(refusal(grouped), "");
  for (const std::int64_t images : {1, 2})
    for (const std::int64_t heads : {1, 3})
      for (const std::int64_t rows : {1, 50}) {
        AttentionProblem biased = problem(64);
        biased.biases.push_back({.extents = {images, heads, rows, 50},
                                 .strides = {heads * rows * 50, rows * 50, 50, 1},
                                 .type = DType::f32});
        EXPECT_EQ(refusal(biased), "") << images << ' ' << heads << ' ' << rows;
        biased.biases.push_back({.extents = {1, 1, 50, 50}, .strides = {2500, 2500, 50, 1}, .type = DType::f32});
        EXPECT_EQ(refusal(biased), "") << "two biases";
      }
}

}  // namespace
}  // namespace unisono::cudnn
