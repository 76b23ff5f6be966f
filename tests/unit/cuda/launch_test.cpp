// The whole way from compiled parts to launches, against a driver that records what it is asked for (fake/).

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "coda/error.hpp"
#include "coda/text.hpp"
#include "compile.hpp"
#include "fake/fake_driver.hpp"
#include "passes/passes.hpp"
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/parameters.hpp"

namespace coda::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

fake::State& driver_state() {
  static fake::State* state = [] {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
    auto* const get = reinterpret_cast<fake::State* (*)()>(library ? ::dlsym(library, "fake_state") : nullptr);
    return get ? get() : nullptr;
  }();
  if (state == nullptr)
    throw std::runtime_error("libcuda.so.1 is not the tests' own; set LD_LIBRARY_PATH as CTest does");
  return *state;
}

const Conv2d conv{.n = 4,
                  .h = 32,
                  .w = 32,
                  .c = 64,
                  .k = 64,
                  .r = 3,
                  .s = 3,
                  .pad = {1, 1, 1, 1},
                  .dtype_x = DType::bf16,
                  .dtype_w = DType::bf16};
constexpr const char* block =
    "operand gain = 0.25\nh = acc * gain + bias[n]\nstore h : bf16\n"
    "store silu(group_norm(h, groups=8, scale=gamma[n])) as y : bf16\nstore mean(h, over=(m,n), per=b, groups=8) as "
    "mu : f32\n";

class CudaLaunch : public ::testing::Test {
 protected:
  // A plan with a workspace and clusters
  explicit CudaLaunch(const char* plan = "mode=resident order=cooperative tile=128x64 cluster=2x1") {
    options.device = Device::cuda;
    options.plan = plan;
    kernel = conv_kernel(conv, passes::run_pipeline(parse(block)), open_device(0), options);
    state.parameter_bytes = parameter_bytes(kernel.kernel.fields.size());
    a.a = {memory(conv.n * conv.h * conv.w * conv.c * 2), DType::bf16, {4, 32, 32, 64}, {}};
    a.b = {memory(64 * 9 * 64 * 2), DType::bf16, {64, 3, 3, 64}, {}};
    for (const char* name : {"bias", "gamma"}) a.operands[name] = {memory(64 * 4), DType::f32, {64}, {}};
    for (const char* name : {"h", "y"})
      a.outputs[name] = {memory(4 * 32 * 32 * 64 * 2), DType::bf16, {4, 32, 32, 64}, {}};
    a.outputs["mu"] = {memory(4 * 8 * 4), DType::f32, {4, 8}, {}};
    state.calls.clear();
  }
  ~CudaLaunch() override {
    executable.reset();
    buffers.clear();
    EXPECT_TRUE(state.memory.empty()) << state.memory.size() << " allocations are left";
    EXPECT_TRUE(state.modules.empty());
    state.launches.clear();
    state.clusters_of_a_kernel = 1000;
    state.next_launch = state.next_synchronize = state.next_alloc = CUDA_SUCCESS;
    state.foreign.clear();
  }

  void* memory(std::int64_t bytes) {
    const std::vector<char> zeros(static_cast<std::size_t>(bytes));
    buffers.push_back(std::make_unique<DeviceBuffer>(0, zeros.data(), zeros.size()));
    return buffers.back()->data();
  }
  const Executable& built() {
    if (!executable)
      executable.emplace(build({conv,
                                parse(block),
                                kernel.epilogue,
                                kernel.plan,
                                kernel.kernel,
                                {.cubin = {}, .resources = {.registers = 168}, .key = "k", .entry = {}},
                                options}));
    return *executable;
  }
  CUstream stream() {
    CUstream s = nullptr;
    auto* const create = reinterpret_cast<CUresult (*)(CUstream*, unsigned)>(
        ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), "cuStreamCreate"));
    create(&s, 0);
    return s;
  }
  static Parameters parameters_of(const fake::RecordedLaunch& launch) {
    Parameters p;
    std::memcpy(&p, launch.parameters.data(), std::min(launch.parameters.size(), sizeof p));
    return p;
  }
  static const void* mapped(const TensorMap& map) {
    const void* address = nullptr;
    std::memcpy(&address, &map, sizeof address);
    return address;
  }
  template <class Error>
  std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

  fake::State& state = driver_state();
  CompileOptions options;
  ConvKernel kernel;
  Arguments a;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  std::optional<Executable> executable;
};

TEST_F(CudaLaunch, IsWhatThePlanSays) {
  built().run(a);
  ASSERT_EQ(state.launches.size(), 1u);
  const fake::RecordedLaunch& launch = state.launches[0];
  const plan::ConvPlan& plan = kernel.plan;
  EXPECT_EQ(launch.grid, static_cast<unsigned>(plan.blocks));
  EXPECT_EQ(launch.block, static_cast<unsigned>(plan.threads));
  EXPECT_EQ(launch.shared, plan.shared_bytes);
  EXPECT_EQ(launch.cluster, 2);
  EXPECT_TRUE(launch.cooperative);
  EXPECT_THAT(state.attributes, ::testing::Contains("shared " + std::to_string(plan.shared_bytes)));

  const Parameters p = parameters_of(launch);
  EXPECT_EQ(mapped(p.conv.activation), a.a.data);
  EXPECT_EQ(mapped(p.conv.filter), a.b.data);
  EXPECT_EQ(mapped(p.conv.output), a.outputs["y"].data);
  EXPECT_EQ(mapped(p.conv.side), a.outputs["h"].data);
  EXPECT_EQ(p.conv.side_memory, a.outputs["h"].data);
  EXPECT_EQ(p.conv.geometry.tiles, plan.tiles);
  EXPECT_EQ(p.conv.norm.group_channels, 8);
  EXPECT_EQ(p.conv.timeline, nullptr);
  for (std::size_t i = 0; i < kernel.kernel.fields.size(); ++i) {
    const codegen::Field& f = kernel.kernel.fields[i];
    if (f.name == "gain")
      EXPECT_EQ(p.fields[i], 0x3e800000u) << "the default, 0.25f";
    else if (f.name == "mu")
      EXPECT_EQ(p.fields[i], reinterpret_cast<std::uint64_t>(a.outputs["mu"].data));
    else
      EXPECT_EQ(p.fields[i], reinterpret_cast<std::uint64_t>(a.operands.at(f.name).data));
  }
}

TEST_F(CudaLaunch, WorkspacesAreZeroAndLieWithinTheirMemory) {
  const Launch launch = built().bind(a);
  launch.enqueue(nullptr);
  const Parameters p = parameters_of(state.launches.at(0));
  const auto start = reinterpret_cast<CUdeviceptr>(p.conv.launch.epoch) - kernel.plan.workspace.epoch;
  ASSERT_TRUE(state.memory.contains(start)) << "a workspace is an allocation of its own";
  EXPECT_GE(state.memory.at(start), kernel.plan.workspace.bytes);
  const auto* bytes = reinterpret_cast<const char*>(start);
  EXPECT_TRUE(std::all_of(bytes, bytes + kernel.plan.workspace.bytes, [](char c) { return c == 0; }));
  for (const void* part : {static_cast<const void*>(p.conv.launch.exits), static_cast<const void*>(p.conv.norm.slots),
                           static_cast<const void*>(p.conv.norm.teams)}) {
    EXPECT_GE(reinterpret_cast<CUdeviceptr>(part), start);
    EXPECT_LT(reinterpret_cast<CUdeviceptr>(part), start + kernel.plan.workspace.bytes);
  }
}

TEST_F(CudaLaunch, ABoundLaunchIsOneCallOfTheDriver) {
  const Launch launch = built().bind(a);
  const CUstream s = stream();
  state.calls.clear();
  launch.enqueue(s);
  EXPECT_THAT(state.calls, ElementsAre("get current", "push", "launch", "pop")) << "from a thread without a context";
  EXPECT_EQ(state.launches.at(0).stream, s);
}

TEST_F(CudaLaunch, LaunchesHaveWorkspacesOfTheirOwn) {
  const Launch one = built().bind(a), two = built().bind(a);
  one.enqueue(nullptr), two.enqueue(nullptr), one.enqueue(nullptr);
  EXPECT_NE(parameters_of(state.launches.at(0)).conv.norm.slots, parameters_of(state.launches.at(1)).conv.norm.slots);
  EXPECT_EQ(state.launches.at(0).parameters, state.launches.at(2).parameters);
}

TEST_F(CudaLaunch, AStreamKeepsItsWorkspace) {
  const CUstream one = stream(), two = stream();
  for (const CUstream s : {one, two, one}) built().enqueue(a, s);
  const auto slots = [&](std::size_t i) { return parameters_of(state.launches.at(i)).conv.norm.slots; };
  EXPECT_NE(slots(0), slots(1));
  EXPECT_EQ(slots(0), slots(2));
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "synchronize"), 0);
}

TEST_F(CudaLaunch, WorkspacesOfManyStreamsAreGivenUp) {
  for (int i = 0; i < 200; ++i) built().enqueue(a, stream());
  EXPECT_EQ(state.launches.size(), 200u);
  EXPECT_LE(state.memory.size(), 70u + buffers.size());
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "synchronize"), 3);
}

TEST_F(CudaLaunch, CapturesGetWorkspacesOfTheirOwn) {
  const CUstream s = stream();
  built().enqueue(a, s);
  state.streams.at(s).capturing = true, state.captures = 1;  // in global mode
  EXPECT_NO_THROW(built().enqueue(a, s));
  EXPECT_NO_THROW(built().enqueue(a, s));
  EXPECT_NO_THROW(built().bind(a).enqueue(s));
  state.streams.at(s).capturing = false, state.captures = 0;
  built().enqueue(a, s);
  std::vector<const void*> slots;
  for (const auto& launch : state.launches) slots.push_back(parameters_of(launch).conv.norm.slots);
  EXPECT_EQ(slots.at(4), slots.at(0)) << "the stream's own";
  EXPECT_NE(slots.at(1), slots.at(0));
  EXPECT_NE(slots.at(2), slots.at(1));
}

TEST_F(CudaLaunch, TheContextIsLeftAsItWas) {
  auto* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  auto* const push = reinterpret_cast<CUresult (*)(CUcontext)>(::dlsym(library, "cuCtxPushCurrent_v2"));
  auto* const pop = reinterpret_cast<CUresult (*)(CUcontext*)>(::dlsym(library, "cuCtxPopCurrent_v2"));
  auto* const theirs = reinterpret_cast<CUcontext>(0x77);
  push(theirs);
  built().run(a);
  built().bind(a).enqueue(nullptr);
  CUcontext now = nullptr;
  pop(&now);
  EXPECT_EQ(now, theirs);
  for (const auto& launch : state.launches) EXPECT_EQ(launch.context, reinterpret_cast<CUcontext>(0x1000));
}

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

TEST_F(CudaLaunch, ConstantFilters) {
  std::vector<std::uint16_t> filter(64 * 9 * 64, 0x3f80);
  options.constant_b = ConstTensorView{filter.data(), DType::bf16, {64, 3, 3, 64}, {}};
  a.b = {};
  built();
  filter.assign(filter.size(), 0);  // it was copied
  built().run(a);
  const auto* copied = static_cast<const std::uint16_t*>(mapped(parameters_of(state.launches.at(0)).conv.filter));
  EXPECT_EQ(copied[0], 0x3f80);
  EXPECT_EQ(copied[filter.size() - 1], 0x3f80);
  executable.reset();
  options.constant_b->shape = {64, 64, 3, 3, 1};
  EXPECT_THAT(refusal<UserError>([&] { built(); }), HasSubstr("the constant filter (constant_b) was given shape"));
}

TEST_F(CudaLaunch, LaunchesKeepTheirKernel) {
  std::optional<Launch> launch = built().bind(a);
  executable.reset();
  EXPECT_EQ(state.modules.size(), 1u);
  EXPECT_NO_THROW(launch->enqueue(nullptr));
  launch.reset();
  EXPECT_TRUE(state.modules.empty());
}

TEST_F(CudaLaunch, EqualKernelsAreLoadedOnce) {
  built();
  const auto first = std::move(executable);
  executable.reset();
  built();
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "load"), 1);
}

TEST_F(CudaLaunch, FromManyThreads) {
  const Launch bound = built().bind(a);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, s = stream()] {
      for (int i = 0; i < 50; ++i) built().enqueue(a, s);
      for (int i = 0; i < 50; ++i) bound.enqueue(s);
      built().run(a);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(state.launches.size(), 8u * 101);
}

TEST_F(CudaLaunch, Describes) {
  const std::string text = built().describe();
  for (const char* words : {"conv2d 4x32x32x64", "GPU 0 (Fake H200), one launch", "128x64", "168 registers, no spills",
                            "bytes for each execution in flight"})
    EXPECT_THAT(text, HasSubstr(words));
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
