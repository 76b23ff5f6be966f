// Streams that are captured into graphs: whose workspace a node gets, how long it keeps it, and what is refused.

#include "recorded.hpp"
#include "runtime/cuda/replay.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/says.hpp"

namespace unisono::cuda {
namespace {

using ::testing::HasSubstr;

class Captures : public CudaLaunch {
 protected:
  const void* slots(std::size_t launch) { return parameters_of(state.launches.at(launch)).conv.norm.slots; }
};

TEST_F(Captures, NodesHaveWorkspacesOfTheirOwn) {
  const CUstream s = stream();
  built().enqueue(a, s);
  std::optional<Launch> bound;
  const CUgraph graph = captured(s, [&] {
    EXPECT_NO_THROW(built().enqueue(a, s));
    EXPECT_NO_THROW(built().enqueue(a, s));
    EXPECT_NO_THROW((bound = built().bind(a))->enqueue(s));
  });
  built().enqueue(a, s);
  EXPECT_EQ(slots(4), slots(0)) << "the stream's own";
  EXPECT_NE(slots(1), slots(0));
  EXPECT_NE(slots(2), slots(1));
  driver().cuGraphDestroy(graph);
}

// A graph's workspaces go to the next capture once it and all that was instantiated from it are gone
TEST_F(Captures, AWorkspaceLivesAsLongAsItsGraph) {
  const CUstream s = stream();
  const auto capture = [&] { return captured(s, [&] { built().enqueue(a, s); }); };
  const CUgraph first = capture(), second = capture();
  EXPECT_NE(slots(0), slots(1)) << "two graphs may be replayed at once";
  CUgraphExec instance = nullptr;
  driver().cuGraphInstantiateWithFlags(&instance, first, 0);
  driver().cuGraphDestroy(first);
  const CUgraph third = capture();
  EXPECT_NE(slots(2), slots(0)) << "the instance still runs";
  driver().cuGraphExecDestroy(instance);
  const CUgraph fourth = capture();
  EXPECT_EQ(slots(3), slots(0));
  for (CUgraph g : {second, third, fourth}) driver().cuGraphDestroy(g);
}

TEST_F(Captures, TenThousandKeepMemoryBounded) {
  const CUstream s = stream();
  built();
  const std::size_t before = state.memory.size();
  for (int i = 0; i < 10000; ++i) {
    const CUgraph graph = captured(s, [&] { built().enqueue(a, s), built().enqueue(a, s); });
    CUgraphExec instance = nullptr;
    driver().cuGraphInstantiateWithFlags(&instance, graph, 0);
    driver().cuGraphDestroy(graph);
    driver().cuGraphExecDestroy(instance);
    state.launches.clear(), state.calls.clear();
  }
  EXPECT_EQ(state.memory.size(), before + 2);
}

// The graph lives on, which is allowed as long as it is not launched
TEST_F(Captures, AGraphThatOutlivesItsExecutable) {
  const CUstream s = stream();
  const CUgraph graph = captured(s, [&] { built().enqueue(a, s); });
  executable.reset();
  EXPECT_EQ(state.memory.size(), buffers.size());
  driver().cuGraphDestroy(graph);
}

TEST_F(Captures, AWorkspaceThatCannotBeTiedIsNotLost) {
  const CUstream s = stream();
  built();
  const std::size_t before = state.memory.size();
  const CUgraph graph = captured(s, [&] {
    for (int i = 0; i < 3; ++i) {
      state.next_retain = CUDA_ERROR_INVALID_VALUE;
      EXPECT_THAT(refusal<DeviceError>([&] { built().enqueue(a, s); }), Says("a workspace … captured graph"));
    }
    EXPECT_NO_THROW(built().enqueue(a, s));
  });
  EXPECT_EQ(state.memory.size(), before + 1);
  EXPECT_EQ(state.launches.size(), 1u);
  driver().cuGraphDestroy(graph);
}

TEST_F(Captures, AnInvalidatedOneIsAnError) {
  const CUstream s = stream();
  const CUgraph graph = captured(s, [&] {
    state.streams.at(s).invalidated = true;
    EXPECT_THAT(refusal<DeviceError>([&] { built().enqueue(a, s); }), Says("adding a launch … captured graph"));
  });
  EXPECT_TRUE(state.launches.empty());
  driver().cuGraphDestroy(graph);
}

// CUDA allows nothing on it meanwhile; to try would end the capture
TEST_F(Captures, TheLegacyDefaultStreamMeanwhile) {
  const CUstream s = stream(), beside = stream(CU_STREAM_NON_BLOCKING);
  built();
  const CUgraph graph = captured(
      s,
      [&] {
        EXPECT_THAT(refusal<UserError>([&] { built().enqueue(a, nullptr); }), HasSubstr("legacy default stream"));
        EXPECT_THAT(refusal<UserError>([&] { built().run(a); }), HasSubstr("the legacy default stream"));
        EXPECT_TRUE(state.launches.empty());
        EXPECT_NO_THROW(built().enqueue(a, beside));
      },
      CU_STREAM_CAPTURE_MODE_RELAXED);
  driver().cuGraphDestroy(graph);
  const CUgraph other = captured(
      beside, [&] { EXPECT_NO_THROW(built().enqueue(a, nullptr)); }, CU_STREAM_CAPTURE_MODE_RELAXED);
  driver().cuGraphDestroy(other);
}

// What a network asks before it plans or binds
TEST_F(Captures, AreSeen) {
  const CUstream s = stream();
  EXPECT_FALSE(is_captured(0, s));
  EXPECT_FALSE(is_captured(0, nullptr));
  const CUgraph graph = captured(s, [&] {
    EXPECT_TRUE(is_captured(0, s));
    EXPECT_THAT(refusal<UserError>([&] { is_captured(0, nullptr); }), HasSubstr("the legacy default stream"));
    state.streams.at(s).invalidated = true;
    EXPECT_TRUE(is_captured(0, s)) << "until it is ended";
  });
  EXPECT_FALSE(is_captured(0, s));
  driver().cuGraphDestroy(graph);
}

}  // namespace
}  // namespace unisono::cuda
