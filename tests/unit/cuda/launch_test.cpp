// What a launch hands to the driver, whose workspace it uses, and what it leaves alone.

#include <fmt/format.h>

#include <thread>

#include "plan/spare_sms.hpp"
#include "recorded.hpp"
#include "runtime/cuda/replay.hpp"
#include "support/says.hpp"

namespace unisono::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CudaLaunch, IsWhatThePlanSays) {
  built().run(a);
  ASSERT_EQ(state.launches.size(), 1u);
  const fake::RecordedLaunch& launch = state.launches[0];
  const auto& plan = dynamic_cast<const families::sm90_conv::ConvPlan&>(kernel.plan());
  EXPECT_EQ(launch.grid, static_cast<unsigned>(plan.ctas));
  EXPECT_EQ(launch.block, static_cast<unsigned>(plan.threads));
  EXPECT_EQ(launch.shared, plan.shared_bytes);
  EXPECT_EQ(launch.cluster, 2);
  EXPECT_TRUE(launch.cooperative);
  EXPECT_TRUE(launch.dependent);
  EXPECT_THAT(state.attributes, ::testing::Contains("shared " + std::to_string(plan.shared_bytes)));

  const Parameters p = parameters_of(launch);
  EXPECT_EQ(mapped(p.conv.activation), a.image.data);
  EXPECT_EQ(mapped(p.conv.filter), a.filter.data);
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
  const auto start = reinterpret_cast<CUdeviceptr>(p.conv.launch.exits) -
                     dynamic_cast<const families::sm90_conv::ConvPlan&>(kernel.plan()).workspace.exits;
  ASSERT_TRUE(state.memory.contains(start)) << "a workspace is an allocation of its own";
  EXPECT_GE(state.memory.at(start), kernel.plan().workspace_bytes);
  const auto* bytes = reinterpret_cast<const char*>(start);
  EXPECT_TRUE(std::all_of(bytes, bytes + kernel.plan().workspace_bytes, [](char c) { return c == 0; }));
  for (const void* part :
       {static_cast<const void*>(p.conv.norm.slots), static_cast<const void*>(p.conv.norm.segments)}) {
    EXPECT_GE(reinterpret_cast<CUdeviceptr>(part), start);
    EXPECT_LT(reinterpret_cast<CUdeviceptr>(part), start + kernel.plan().workspace_bytes);
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

TEST_F(CudaLaunch, ConstantFilters) {
  std::vector<std::uint16_t> filter(64 * 9 * 64, 0x3f80);
  options.constant_filter = ConstTensorView{filter.data(), DType::bf16, {64, 3, 3, 64}, {}};
  a.filter = {};
  built();
  filter.assign(filter.size(), 0);  // it was copied
  built().run(a);
  const auto* copied = static_cast<const std::uint16_t*>(mapped(parameters_of(state.launches.at(0)).conv.filter));
  EXPECT_EQ(copied[0], 0x3f80);
  EXPECT_EQ(copied[filter.size() - 1], 0x3f80);
  executable.reset();
  options.constant_filter->shape = {64, 64, 3, 3, 1};
  EXPECT_THAT(refusal<UserError>([&] { built(); }), HasSubstr("the constant filter (constant_filter) was given shape"));
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

// What the driver is told of launches that run beside each other: one that waits for one other does so
// programmatically, one that waits for several starts when they have ended
TEST_F(CudaLaunch, GraphsWithBranches) {
  std::vector<Launch> launches;
  for (int i = 0; i < 4; ++i) launches.push_back(built().bind(a));
  const std::string node = fmt::format("{} CTAs of {} threads, {} bytes, clusters of 2, cooperative",
                                       kernel.plan().ctas, kernel.plan().threads, kernel.plan().shared_bytes);
  const LaunchOrder after{{}, {0}, {0}, {1, 2}};
  {
    const Replay branches(0, launches, {}, GraphBy::nodes, after);
    EXPECT_EQ(branches.describe(), node + "\n" + node + "; port 1 type 1\n" + node + "; after line 1, port 1 type 1\n" +
                                       node + "; after line 2, port 0 type 0; port 0 type 0\n");
    EXPECT_EQ(branches.kernel_nodes(), 4u);
    const Replay line(0, launches, {}, GraphBy::line, after), no_order(0, launches, {}, GraphBy::nodes);
    EXPECT_EQ(line.describe(),
              node + "\n" + node + "; port 1 type 1\n" + node + "; port 1 type 1\n" + node + "; port 1 type 1\n");
    EXPECT_EQ(line.describe(), no_order.describe());
    state.calls.clear();
    branches.enqueue(nullptr);
    EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "launch a graph"), 1);
    EXPECT_TRUE(state.launches.empty()) << "one call of the driver, not one a launch";
  }
  EXPECT_THAT(refusal<InternalError>([&] {
                Replay(0, launches, {}, GraphBy::nodes, {{}, {0}});
              }),
              ::testing::HasSubstr("an order of 2 for 4 launches"));
  EXPECT_THAT(refusal<InternalError>([&] {
                Replay(0, launches, {}, GraphBy::nodes, {{}, {0}, {2}, {}});
              }),
              ::testing::HasSubstr("launch 2 would wait for launch 2"));
}

// What UNISONO_GRAPH may be
TEST_F(CudaLaunch, WaysToMakeAGraph) {
  EXPECT_EQ(graph_by(), GraphBy::nodes);
  for (const auto& [word, way] :
       {std::pair{"capture", GraphBy::capture}, {"line", GraphBy::line}, {"nodes", GraphBy::nodes}}) {
    ::setenv("UNISONO_GRAPH", word, 1);
    EXPECT_EQ(graph_by(), way);
  }
  ::setenv("UNISONO_GRAPH", "star", 1);
  EXPECT_THAT(refusal<UserError>([] { graph_by(); }), ::testing::HasSubstr("expected nodes, line or capture"));
  ::unsetenv("UNISONO_GRAPH");
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

// SMs that are left to others: fewer blocks, and each may have cost a cluster
TEST_F(CudaLaunch, SparesSms) {
  const plan::Device all = open_device(0), fewer = plan::with_spare_sms(all, 116, "an option");
  EXPECT_EQ(fewer.sms, all.sms - 116);
  EXPECT_EQ(fewer.resident_ctas[1], all.resident_ctas[1] - 116);
  EXPECT_EQ(fewer.resident_ctas[2], 0);
  options.plan.clear();
  const lower::Lowered k = lower::lower(conv, parse(text), options, fewer).value();
  EXPECT_LE(k.plan().ctas, 16);
  EXPECT_GT(kernel.plan().ctas, 16);
  EXPECT_THAT(refusal<UserError>([&] { plan::with_spare_sms(all, 132, "CompileOptions::spare_sms"); }),
              HasSubstr("CompileOptions::spare_sms is 132; expected 0 to 131, as the Fake H200 has 132 SMs"));
  EXPECT_THAT(refusal<UserError>([&] { plan::with_spare_sms(all, -1, "x"); }), HasSubstr("x is -1"));
}

TEST_F(CudaLaunch, Describes) {
  const std::string description = built().describe();
  for (const char* words : {"conv2d 4x32x32x64", "GPU 0 (Fake H200), one launch", "128x64", "168 registers, no spills",
                            "bytes … execution in flight"})
    EXPECT_THAT(description, Says(words));
}

// Without statistics or partial sums nothing is exchanged
class BareLaunch : public CudaLaunch {
 protected:
  BareLaunch() : CudaLaunch("", "store relu(acc + bias[n] * gamma[n]) as y : bf16\nstore acc as h : bf16\n") {
    a.outputs.erase("mu");
  }
};

TEST_F(BareLaunch, NeedsNoWorkspace) {
  built();
  const std::size_t before = state.memory.size();
  built().enqueue(a, stream());
  const Launch launch = built().bind(a);
  launch.enqueue(nullptr);
  EXPECT_EQ(state.memory.size(), before);
  ASSERT_EQ(state.launches.size(), 2u);
  EXPECT_FALSE(state.launches[0].cooperative);
  const Parameters p = parameters_of(state.launches[0]);
  EXPECT_EQ(p.conv.launch.exits, nullptr);
  EXPECT_EQ(p.conv.norm.slots, nullptr);
  EXPECT_THAT(built().describe(), HasSubstr("workspace: none"));
}

}  // namespace
}  // namespace unisono::cuda
