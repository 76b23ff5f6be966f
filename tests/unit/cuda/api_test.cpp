// What the public interface says of GPUs where there is none, or on the CPU.

#include <gmock/gmock.h>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const Conv2d conv{
    .n = 1, .h = 4, .w = 4, .c = 8, .k = 8, .r = 1, .s = 1, .dtype_x = DType::bf16, .dtype_w = DType::bf16};

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const UserError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(CudaApi, TheCpuHasNoStreams) {
  const Executable kernel = compile(conv, parse("store acc : f32\n"));
  EXPECT_THAT(refusal([&] { kernel.enqueue({}, nullptr); }), HasSubstr("compiled for the CPU"));
  EXPECT_THAT(refusal([&] { kernel.bind({}); }), HasSubstr("compiled for the CPU"));
}

TEST(CudaApi, UnknownStorage) {
  CompileOptions options;
  options.device = Device::cuda;
  options.storage["bais"] = DType::bf16;
  EXPECT_THAT(refusal([&] { compile(conv, parse("store acc + bias[n] as y : bf16\n"), options); }),
              HasSubstr("did you mean 'bias'?"));
}

// With a GPU this compiles a kernel, and is right to; without one it says what is missing.
TEST(CudaApi, SaysWhatIsMissing) {
  CompileOptions options;
  options.device = Device::cuda;
  try {
    EXPECT_THAT(compile(conv, parse("store acc : bf16\n"), options).describe(), HasSubstr("GPU 0"));
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(), HasSubstr("CUDA driver"));
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), AnyOf(HasSubstr("no CUDA backend"), HasSubstr("compute capability")));
  }
}

}  // namespace
}  // namespace unisono
