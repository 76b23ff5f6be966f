// Memory, drivers and GPUs that are not what a launch needs.

#include <sys/wait.h>
#include <unistd.h>

#include "recorded.hpp"
#include "support/says.hpp"

namespace unisono::cuda {
namespace {

using ::testing::AllOf;
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

// Each argument, with memory that is too small for it
TEST_F(CudaLaunch, MemoryThatIsTooSmall) {
  void* const few = memory(16);
  const auto refused = [&](const std::function<void(Arguments&)>& change) {
    Arguments wrong = a;
    change(wrong);
    return refusal<UserError>([&] { built().bind(wrong); });
  };
  EXPECT_THAT(
      refused([&](Arguments& x) { x.outputs["y"].data = few; }),
      AllOf(HasSubstr("output y[m,n] was given the address"), Says("from which 16 bytes … left (it has 16, from"),
            HasSubstr("expected 524288 bytes, by its shape")));
  EXPECT_THAT(refused([&](Arguments& x) { x.outputs["h"].data = few; }), HasSubstr("output h[m,n] was given"));
  EXPECT_THAT(refused([&](Arguments& x) { x.outputs["mu"].data = few; }), HasSubstr("expected 128 bytes"));
  EXPECT_THAT(refused([&](Arguments& x) { x.operands["bias"].data = few; }), HasSubstr("operand bias[n] was given"));
  EXPECT_THAT(refused([&](Arguments& x) { x.image.data = few; }), HasSubstr("the image was given"));
  EXPECT_THAT(refused([&](Arguments& x) { x.filter.data = few; }), HasSubstr("the filter was given"));
  EXPECT_THAT(refusal<UserError>([&] {
                Arguments wrong = a;
                wrong.outputs["y"].data = few;
                built().enqueue(wrong, nullptr);
              }),
              HasSubstr("16 bytes of its allocation"));
  EXPECT_TRUE(state.launches.empty());
}

// Pixels that lie apart: gaps count, but for that behind the last pixel
TEST_F(CudaLaunch, MemoryToTheLastByte) {
  constexpr std::int64_t pixels = 4 * 32 * 32, bytes = ((pixels - 1) * 80 + 64) * 2;
  Arguments apart = a;
  apart.outputs["y"].strides = {32 * 32 * 80, 32 * 80, 80, 1};
  apart.outputs["y"].data = memory(bytes);
  EXPECT_NO_THROW(built().bind(apart));
  apart.outputs["y"].data = memory(bytes - 1);
  EXPECT_THAT(refusal<UserError>([&] { built().bind(apart); }),
              HasSubstr("expected " + std::to_string(bytes) + " bytes"));
  // Parts of a larger range, as of a pool or of reserved addresses, and what a driver knows nothing of
  state.chunks[reinterpret_cast<CUdeviceptr>(apart.outputs["y"].data) - 4096] = std::size_t{1} << 30;
  EXPECT_NO_THROW(built().bind(apart));
  state.chunks.clear();
  state.knows_ranges = false;
  EXPECT_NO_THROW(built().bind(apart));
  state.knows_ranges = true;
}

TEST_F(CudaLaunch, WaitsBetweenMatrixInstructions) {
  const std::string what = refusal<InternalError>([&] { build_from({.registers = 168, .injected_waits = 4}); });
  EXPECT_THAT(what, Says("added 4 waits between … instructions of conv2d 4x32x32x64 -> 64"));
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
  EXPECT_THAT(refusal<DeviceError>([&] { built().enqueue(a, fresh); }),
              HasSubstr("allocating " + std::to_string(kernel.plan().workspace_bytes) +
                        " bytes of GPU memory for a workspace"));
  EXPECT_NO_THROW(built().enqueue(a, fresh)) << "nothing half-made stays in the pool";
}

TEST_F(CudaLaunch, TheWatchdogIsNamed) {
  options.watchdog = true;
  built().run(a);
  state.next_synchronize = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), HasSubstr("compiled with the watchdog"));
}

TEST_F(CudaLaunch, AWorkspaceInUseIsNamed) {
  options.watchdog = true;
  built().run(a);
  state.next_synchronize = CUDA_ERROR_MISALIGNED_ADDRESS;
  EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), HasSubstr("was in flight twice"));
}

// After each of these no call works; the message says why
TEST_F(CudaLaunch, AContextThatIsLost) {
  for (const CUresult lost : {CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_MPS_CLIENT_TERMINATED, CUDA_ERROR_UNKNOWN}) {
    EXPECT_TRUE(is_sticky(lost));
    state.next_launch = lost;
    EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), HasSubstr("end the process"));
  }
  state.next_launch = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), HasSubstr("cudaDeviceReset"));
  state.next_launch = CUDA_ERROR_MPS_CLIENT_TERMINATED;
  EXPECT_THAT(refusal<DeviceError>([&] { built().run(a); }), HasSubstr("MPS"));
}

// What a reset does to the driver's objects; a context that is made afterwards has another number
void reset(fake::State& state) {
  state.context_active = false;
  for (const auto& [address, bytes] : state.memory) std::free(reinterpret_cast<void*>(address));
  for (const auto& [module, count] : state.modules) std::free(module);
  state.memory.clear(), state.modules.clear();
}

TEST_F(CudaLaunch, AResetContext) {
  built();
  std::optional<Launch> bound = built().bind(a);
  reset(state);
  state.calls.clear();
  for (const bool again : {false, true}) {
    state.context_active = again, state.context_id = again ? 8 : 7;
    const std::function<void()> ways[] = {[&] { built().run(a); }, [&] { built().enqueue(a, nullptr); },
                                          [&] { built().bind(a); }, [&] { open_device(0); }, [&] { memory(16); }};
    for (const auto& way : ways)
      EXPECT_THAT(refusal<DeviceError>(way), HasSubstr("the context of GPU 0 (Fake H200) was reset"));
  }
  EXPECT_TRUE(state.launches.empty());
  // Nothing of what is gone is given back to the new context, where it may be somebody else's
  bound.reset(), executable.reset(), buffers.clear();
  for (const char* call : {"free", "unload", "launch", "push"})
    EXPECT_THAT(state.calls, Not(::testing::Contains(call)));
  state.context_id = 7;
}

// Everything says so, nothing calls the driver, and the child ends as it should
TEST_F(CudaLaunch, AForkedProcess) {
  built();
  std::optional<Launch> bound = built().bind(a);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    state.calls.clear();
    int wrong = 0;
    const std::function<void()> ways[] = {[&] { built().run(a); },          [&] { built().enqueue(a, nullptr); },
                                          [&] { bound->enqueue(nullptr); }, [&] { built().bind(a); },
                                          [&] { open_device(0); },          [&] { memory(16); }};
    for (const auto& way : ways) wrong += !says(refusal<DeviceError>(way), "CUDA … after fork");
    bound.reset(), executable.reset(), buffers.clear();
    ::_exit(state.calls.empty() ? wrong : 100);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NO_THROW(built().run(a)) << "the parent goes on";
}

// Code does not go from under a kernel that may still run
TEST_F(CudaLaunch, AModuleWhoseLaunchesMayRun) {
  built();
  state.next_context_synchronize = CUDA_ERROR_LAUNCH_FAILED;
  ::testing::internal::CaptureStderr();
  executable.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              Says("unisono: kernels stay loaded on GPU 0: waiting … failed with CUDA_ERROR_LAUNCH_FAILED"));
  ASSERT_EQ(state.modules.size(), 1u);
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "unload"), 0);
  std::free(state.modules.begin()->first);
  state.modules.clear();
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
  EXPECT_THAT(why_not(), Says("has no function cuTensorMapEncodeTiled; Unisono needs … driver of CUDA 12.0 or later"));
}

// ---- What a GPU may be

TEST(CudaDevice, IsMeasured) {
  const plan::Device d = open_device(1);
  EXPECT_EQ(d.name, "Fake H200");
  EXPECT_EQ(d.sms, 132);
  EXPECT_EQ(d.resident_ctas[1], 132);
  EXPECT_EQ(d.resident_ctas[5], 130) << "26 clusters";
  EXPECT_EQ(d.shared_bytes, 232448u);
  EXPECT_EQ(d.l2_bytes, 62914560u);
  EXPECT_DOUBLE_EQ(d.tensor_tflops, 800);
  EXPECT_DOUBLE_EQ(d.memory_tbps, 4.2);
}

TEST(CudaDevice, ThatDoesNotExist) {
  try {
    open_device(2);
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("device_index is 2; this machine has 2 GPUs, expected 0 to 1"));
  }
}

// Kernels without tensor cores serve it; without clusters there are none to measure
TEST(CudaDevice, OfAnotherGeneration) {
  fake::State& state = driver_state();
  state.gpus = 5, state.major = 8, state.minor = 6, state.sms = 82, state.name = "Fake GeForce RTX 3090";
  state.clock_khz = 1695000, state.memory_clock_khz = 9751000, state.memory_bus_bits = 384, state.l2_bytes = 6 << 20;
  const plan::Device other = open_device(4);
  EXPECT_EQ(other.name, "Fake GeForce RTX 3090");
  EXPECT_EQ(other.arch(), "sm_86");
  EXPECT_EQ(other.l2_bytes, 6u << 20);
  EXPECT_NEAR(other.tensor_tflops, 71 * 0.8, 1) << "no H200's";
  EXPECT_NEAR(other.memory_tbps, 0.936 * 0.85, 0.01);
  state.major = 6, state.minor = 1, state.name = "Fake 1080";
  try {
    open_device(3);
    FAIL() << "accepted";
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), HasSubstr("GPU 3 is a Fake 1080 of compute capability 6.1; the kernels are for 7.5"));
  }
  const fake::State before;
  state.gpus = 2, state.major = 9, state.minor = 0, state.sms = before.sms, state.name = before.name;
  state.clock_khz = before.clock_khz, state.memory_clock_khz = before.memory_clock_khz;
  state.memory_bus_bits = before.memory_bus_bits, state.l2_bytes = before.l2_bytes;
}

}  // namespace
}  // namespace unisono::cuda
