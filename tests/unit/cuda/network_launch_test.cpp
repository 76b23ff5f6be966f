// Runs of a network by slots: what the driver is asked, what a capture keeps, whose workspace is used.

#include "network_recorded.hpp"
#include "support/says.hpp"

namespace unisono::network::gpu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(NetworkLaunches, AreOneLaunchOfAGraph) {
  const auto launch = bound();
  const CUstream s = stream();
  launch->enqueue(s);
  state.calls.clear();
  launch->enqueue(s);
  EXPECT_THAT(state.calls, ElementsAre("get current", "push", "ask for a capture", "pop", "get current", "push",
                                       "launch a graph", "pop"));
  launch->rebind(launch->slot("y"), memory(24));
  state.calls.clear();
  launch->enqueue(s);
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "copy"), 1) << "the table";
  state.calls.clear();
  launch->enqueue(s);
  EXPECT_THAT(state.calls, Not(Contains("copy")));
  EXPECT_TRUE(state.launches.empty()) << "one call of the driver, not one a kernel";
}

// Its kernels are nodes, with the addresses of the moment and a table that nobody else writes
TEST_F(NetworkLaunches, ACaptureKeepsItsTensors) {
  const auto launch = bound();
  const CUstream s = stream();
  const std::vector<const void*> first{views[0].data, views[1].data};
  const CUgraph one = cuda::CudaLaunch::captured(s, [&] { launch->enqueue(s); });
  EXPECT_EQ(state.launches.size(), 3u);
  EXPECT_THAT(state.calls, Not(Contains("launch a graph")));
  void* const moved = memory(24);
  launch->rebind(launch->slot("x"), moved);
  const CUgraph two = captured(s, [&] { launch->enqueue(s); });
  launch->enqueue(s);
  ASSERT_EQ(state.launches.size(), 6u);
  EXPECT_NE(handed(0).callers, handed(3).callers);
  EXPECT_EQ(handed(0).callers, handed(2).callers);
  EXPECT_EQ(tensors(handed(0).callers), first);
  EXPECT_THAT(tensors(handed(3).callers), ElementsAre(moved, views[1].data));
  EXPECT_EQ(handed(0).arena, handed(3).arena) << "the launch's workspace";
  // A table is the next capture's once the graph and its instances are gone
  CUgraphExec instance = nullptr;
  cuda::driver().cuGraphInstantiateWithFlags(&instance, one, 0);
  cuda::driver().cuGraphDestroy(one);
  const CUgraph three = captured(s, [&] { launch->enqueue(s); });
  EXPECT_NE(handed(6).callers, handed(0).callers) << "the instance still runs";
  cuda::driver().cuGraphExecDestroy(instance);
  const CUgraph four = captured(s, [&] { launch->enqueue(s); });
  EXPECT_EQ(handed(9).callers, handed(0).callers);
  for (CUgraph g : {two, three, four}) cuda::driver().cuGraphDestroy(g);
}

TEST_F(NetworkLaunches, AWorkspaceOfTheCallers) {
  auto* const room = static_cast<std::byte*>(memory(static_cast<std::int64_t>(plan->bytes)));
  std::fill_n(room, plan->bytes, std::byte{0x5a});
  const auto launch = bound({.memory = room, .bytes = plan->bytes});
  EXPECT_EQ(launch->workspace_bytes(), plan->bytes);
  EXPECT_TRUE(std::all_of(room, room + plan->bytes, [](std::byte b) { return b == std::byte{0}; }));
  const CUstream s = stream();
  const CUgraph graph = captured(s, [&] { launch->enqueue(s); });
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(handed(i).arena, room);
    EXPECT_EQ(handed(i).workspace, room + 1024 + i * HandedStep::bytes);
  }
  cuda::driver().cuGraphDestroy(graph);
  const auto refused = [&](const WorkspaceMemory& w) { return refusal<UserError>([&] { bound(w); }); };
  EXPECT_THAT(refused({.memory = room, .bytes = 8}), HasSubstr("as workspace_bytes() says"));
  EXPECT_THAT(refused({.memory = room + 8, .bytes = plan->bytes}), HasSubstr("expected a multiple of 256 bytes"));
  alignas(256) static std::byte host[256];
  EXPECT_THAT(refused({.memory = host, .bytes = plan->bytes}), HasSubstr("the memory of GPU 0"));
}

TEST_F(NetworkLaunches, SlotsThatAreNone) {
  const auto launch = bound();
  EXPECT_EQ(launch->slot("x"), launch->slot("input x"));
  EXPECT_THAT(refusal<UserError>([&] { launch->slot("z"); }),
              HasSubstr("no input or output 'z'; it has input x, output y"));
  EXPECT_THAT(refusal<UserError>([&] { launch->rebind(2, views[0].data); }), HasSubstr("slot 2 was given"));
  EXPECT_THAT(refusal<UserError>([&] { launch->rebind(0, nullptr); }), Says("input x … null pointer"));
  EXPECT_THAT(refusal<UserError>([&] { launch->rebind(0, static_cast<const std::byte*>(views[0].data) + 2); }),
              AllOf(HasSubstr("input x was given the address"), HasSubstr("a multiple of 4 bytes")));
  plan->callers[1] = "output x";
  EXPECT_THAT(refusal<UserError>([&] { launch->slot("x"); }), HasSubstr("ask for 'input x' or 'output x'"));
  EXPECT_EQ(launch->slot("output x"), 1u);
}

// Captures of a network's own enqueue(): memory of their own, which goes with its graph when another plan is captured
TEST_F(NetworkLaunches, CapturesWithMemoryOfTheirOwn) {
  CapturedRuns runs;
  const CUstream s = stream();
  const auto capture = [&](const std::shared_ptr<Plan>& p) {
    return captured(s, [&] {
      Workspace& run = runs.take(p, s, [&] { return std::make_unique<Workspace>(*p, Workspace::Way::recorded); });
      run.bind(views, 1);
      run.record(s);
    });
  };
  const CUgraph one = capture(plan), two = capture(plan);
  EXPECT_NE(handed(0).arena, handed(3).arena) << "two graphs may run at once";
  cuda::driver().cuGraphDestroy(one);
  const CUgraph three = capture(plan);
  EXPECT_EQ(handed(6).arena, handed(0).arena);
  const std::size_t before = state.memory.size();
  cuda::driver().cuGraphDestroy(three);
  const CUgraph four = capture(make_plan());
  EXPECT_EQ(state.memory.size(), before) << "those of the one went, those of the other came";
  for (CUgraph g : {two, four}) cuda::driver().cuGraphDestroy(g);
}

}  // namespace
}  // namespace unisono::network::gpu
