// Memory, drivers and GPUs that are not what a launch needs.

#include "recorded.hpp"

namespace coda::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CudaLaunch, MemoryThatIsNotTheGpus) {
  alignas(16) static float host[64];
  Arguments wrong = a;
  wrong.operands["bias"].data = host;
  EXPECT_THAT(refusal<UserError>([&] { built().run(wrong); }), HasSubstr("operand bias[n] was given the address"));
  EXPECT_THAT(refusal<UserError>([&] { built().bind(wrong); }), HasSubstr("host memory"));
  state.foreign[reinterpret_cast<CUdeviceptr>(host)] = 1;
  EXPECT_THAT(refusal<UserError>([&] { built().enqueue(wrong, nullptr); }),
              HasSubstr("which is memory of GPU 1; expected memory of GPU 0 (Fake H200)"));
  EXPECT_TRUE(state.launches.empty());
}

TEST_F(CudaLaunch, WaitsBetweenMatrixInstructions) {
  const std::string what = refusal<InternalError>([&] { build_from({.registers = 168, .injected_waits = 4}); });
  EXPECT_THAT(what, HasSubstr("added 4 waits between the matrix instructions of conv2d 4x32x32x64 -> 64"));
  EXPECT_THAT(what, HasSubstr("Another plan may do"));
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "load"), 0);
}

TEST_F(CudaLaunch, ErrorsOfTheDriver) {
  built();
  state.next_launch = CUDA_ERROR_LAUNCH_FAILED;
  const std::string sticky = refusal<DeviceError>([&] { built().run(a); });
  EXPECT_THAT(sticky, HasSubstr("launching 128x64"));
  EXPECT_THAT(sticky, HasSubstr("CUDA_ERROR_LAUNCH_FAILED: as the test asked"));
  EXPECT_THAT(sticky, HasSubstr("end the process"));
  state.next_launch = CUDA_ERROR_INVALID_VALUE;
  EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), Not(HasSubstr("end the process")));
  state.next_synchronize = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), HasSubstr("running 128x64"));
  const CUstream fresh = stream();
  state.next_alloc = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_THAT(
      refusal<DeviceError>([&] { built().enqueue(a, fresh); }),
      HasSubstr("allocating " + std::to_string(kernel.plan.workspace.bytes) + " bytes of GPU memory for a workspace"));
  EXPECT_NO_THROW(built().enqueue(a, fresh)) << "nothing half-made stays in the pool";
}

TEST_F(CudaLaunch, TheWatchdogIsNamed) {
  options.watchdog = true;
  built().run(a);
  state.next_synchronize = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), HasSubstr("compiled with the watchdog"));
}

TEST_F(CudaLaunch, BlocksThatDoNotFit) {
  state.clusters_of_a_kernel = 3;
  EXPECT_THAT(refusal<DeviceError>([&] { built(); }), HasSubstr("only 6 fit on the Fake H200"));
}

TEST_F(CudaLaunch, ParametersOfAnotherSize) {
  state.parameter_bytes = 4096;
  EXPECT_THAT(refusal<InternalError>([&] { built(); }), HasSubstr("takes a parameter of 4096 bytes"));
}

// ---- What a machine may lack; each in a process of its own (CMakeLists.txt)

std::string why_not() {
  try {
    open_device(0);
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "opened";
}

TEST(CudaMissing, DISABLED_AGpu) { EXPECT_THAT(why_not(), HasSubstr("cuInit returned CUDA_ERROR_NO_DEVICE")); }

TEST(CudaMissing, DISABLED_ANewEnoughDriver) {
  EXPECT_THAT(why_not(),
              HasSubstr("has no function cuTensorMapEncodeTiled; Coda needs the driver of CUDA 12.0 or later"));
}

// ---- What a GPU may be

TEST(CudaDevice, IsMeasured) {
  const plan::Device d = open_device(1);
  EXPECT_EQ(d.name, "Fake H200");
  EXPECT_EQ(d.multiprocessors, 132);
  EXPECT_EQ(d.resident_blocks[1], 132);
  EXPECT_EQ(d.resident_blocks[5], 130) << "26 clusters";
}

TEST(CudaDevice, ThatDoesNotExist) {
  try {
    open_device(2);
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("device_index is 2; this machine has 2 GPUs, expected 0 to 1"));
  }
}

TEST(CudaDevice, OfAnotherGeneration) {
  fake::State& state = driver_state();
  state.gpus = 3, state.major = 8, state.minor = 6, state.name = "Fake 3090";
  try {
    open_device(2);
    FAIL() << "accepted";
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), HasSubstr("GPU 2 is a Fake 3090 of compute capability 8.6"));
  }
  state.gpus = 2, state.major = 9, state.minor = 0, state.name = "Fake H200";
}

}  // namespace
}  // namespace coda::cuda
