#pragma once
/// A convolution compiled for the tests' own driver (fake/), with arguments, and what the driver recorded.

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include "fake/fake_driver.hpp"
#include "families/sm90/parameters.hpp"
#include "families/sm90_conv/conv.hpp"
#include "lower/lower.hpp"
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/driver.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::cuda {

using families::sm90::parameter_bytes;
using families::sm90::Parameters;

inline fake::State& driver_state() {
  static fake::State* state = [] {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
    auto* const get = reinterpret_cast<fake::State* (*)()>(library ? ::dlsym(library, "fake_state") : nullptr);
    return get ? get() : nullptr;
  }();
  if (state == nullptr)
    throw std::runtime_error("libcuda.so.1 is not the tests' own; set LD_LIBRARY_PATH as CTest does");
  return *state;
}

inline const Conv2d conv{.n = 4,
                         .h = 32,
                         .w = 32,
                         .c = 64,
                         .k = 64,
                         .r = 3,
                         .s = 3,
                         .pad = {1, 1, 1, 1},
                         .dtype_x = DType::bf16,
                         .dtype_w = DType::bf16};
inline constexpr const char* block =
    "operand gain = 0.25\nh = acc * gain + bias[n]\nstore h : bf16\n"
    "store silu(group_norm(h, groups=8, scale=gamma[n])) as y : bf16\nstore mean(h, over=(m,n), per=b, groups=8) as "
    "mu : f32\n";

class CudaLaunch : public ::testing::Test {
 protected:
  // A plan with a workspace and clusters
  explicit CudaLaunch(const char* plan = "mode=resident order=cooperative tile=128x64 cluster=2x1",
                      const char* epilogue = block)
      : text(epilogue) {
    options.device = Device::cuda;
    options.plan = plan;
    kernel = lower::lower(conv, parse(text), options, open_device(0)).value();
    state.parameter_bytes = parameter_bytes(kernel.kernel.fields.size());
    a.image = {memory(conv.n * conv.h * conv.w * conv.c * 2), DType::bf16, {4, 32, 32, 64}, {}};
    a.filter = {memory(64 * 9 * 64 * 2), DType::bf16, {64, 3, 3, 64}, {}};
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
    state.next_context_synchronize = state.next_retain = CUDA_SUCCESS;
    EXPECT_EQ(state.user_objects, 0) << "graphs are left";
    state.foreign.clear(), state.chunks.clear();
  }

  void* memory(std::int64_t bytes) {
    const std::vector<char> zeros(static_cast<std::size_t>(bytes));
    buffers.push_back(std::make_unique<DeviceBuffer>(0, zeros.data(), zeros.size()));
    return buffers.back()->data();
  }
  Executable build_from(const jit::Resources& resources) {
    lower::Lowered lowered = kernel;
    lowered.problem.options = options;  // tests change them
    return Executable(build(std::move(lowered), {.cubin = {}, .resources = resources, .key = "k", .entry = {}}));
  }
  const Executable& built() {
    if (!executable) executable.emplace(build_from({.registers = 168}));
    return *executable;
  }
  static CUstream stream(unsigned flags = CU_STREAM_DEFAULT) {
    CUstream s = nullptr;
    driver().cuStreamCreate(&s, flags);
    return s;
  }
  /// What `enqueue` puts on the stream, captured.
  static CUgraph captured(CUstream s, const std::function<void()>& enqueue,
                          CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    driver().cuStreamBeginCapture_v2(s, mode);
    enqueue();
    CUgraph graph = nullptr;
    driver().cuStreamEndCapture(s, &graph);
    return graph;
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
  const char* text;
  CompileOptions options;
  lower::Lowered kernel;
  Arguments a;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  std::optional<Executable> executable;
};

}  // namespace unisono::cuda
