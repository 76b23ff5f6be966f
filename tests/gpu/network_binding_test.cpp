// Streams and memory of the caller: captures, runs by slot, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "runtime/cuda/driver.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

// A classifier with its tensors in the GPU's memory
struct OnDevice {
  NetworkExecutable executable = compile(classifier(24, 10), on_gpu());
  HostTensors inputs = random_inputs({{"x", {2, 24, 5, 7}}}, 5), expected = run(executable, inputs);
  Buffer x{2 * 24 * 5 * 7 * 4}, p{2 * 10 * 4};
  TestStream stream;

  OnDevice() { x.upload(inputs.at("x").data.data()); }
  std::map<std::string, ConstTensorView> in() const { return {{"x", {x.data(), DType::f32, {2, 24, 5, 7}, {}}}}; }
  std::map<std::string, TensorView> out(void* to) const { return {{"p", {to, DType::f32, {2, 10}, {}}}}; }
  // What the call is refused with
  template <class Call>
  std::string refusal(const Call& call) {
    try {
      call();
    } catch (const UserError& e) {
      return e.what();
    }
    return "accepted";
  }
  void expect_served() {
    executable.enqueue(in(), out(p.data()), stream);
    wait(stream.get(), "a network");
    std::vector<float> result(20);
    p.download(result.data());
    EXPECT_EQ(result, expected.at("p").data);
  }
  std::vector<float> result_in(const Buffer& from) const {
    std::vector<float> result(20);
    from.download(result.data());
    return result;
  }
};

// The network's kernels are nodes of the caller's graph, with the tensors of that moment
TEST(NetworkSmall, CapturesRunWithTheirTensors) {
  OnDevice n;
  Buffer other{2 * 10 * 4};
  for (const bool enqueued_before : {false, true}) {
    if (enqueued_before) n.expect_served();
    const TestGraph graph(n.stream.get(), [&] { n.executable.enqueue(n.in(), n.out(other.data()), n.stream); });
    EXPECT_GT(graph.kernel_nodes(), 0u);
    EXPECT_EQ(graph.nodes(), graph.kernel_nodes()) << "no copies";
    n.expect_served();
    other.poison(n.stream.get()), n.p.poison(n.stream.get());
    for (int i = 0; i < 3; ++i) graph.replay(n.stream.get());
    wait(n.stream.get(), "replays");
    EXPECT_EQ(n.result_in(other), n.expected.at("p").data);
    EXPECT_NE(n.result_in(n.p), n.expected.at("p").data) << "what was enqueued between has a table of its own";
    EXPECT_TRUE(other.guards_hold());
  }
}

// Two captures with a workspace each on two streams beside eager runs; `replays` of each
void replay_beside_each_other(int replays) {
  OnDevice n;
  Buffer first{2 * 10 * 4}, second{2 * 10 * 4};
  const TestStream other;
  const TestGraph one(n.stream.get(), [&] { n.executable.enqueue(n.in(), n.out(first.data()), n.stream); });
  const NetworkLaunch launch = n.executable.bind(n.in(), n.out(second.data()));
  const TestGraph two(other.get(), [&] { launch.enqueue(other); });
  const TestStream eager;
  for (int i = 0; i < replays; ++i) {
    if (i % 100 == 0) first.poison(n.stream.get()), second.poison(other.get()), n.p.poison(eager.get());
    one.replay(n.stream.get()), two.replay(other.get());
    n.executable.enqueue(n.in(), n.out(n.p.data()), eager);
    if (i % 100 != 99 && i + 1 != replays) continue;
    wait(n.stream.get(), "the first graph"), wait(other.get(), "the second graph"), wait(eager.get(), "eager runs");
    for (const Buffer* x : {&first, &second, &n.p}) ASSERT_EQ(n.result_in(*x), n.expected.at("p").data) << i;
  }
}
TEST(NetworkSmall, CapturesRunBesideEachOther) { replay_beside_each_other(3); }
TEST(Network, ManyReplaysOfTwoCaptures) { replay_beside_each_other(10000); }

// Two instances of one capture, one after the other
TEST(NetworkSmall, InstancesOfACapture) {
  OnDevice n;
  const NetworkLaunch launch = n.executable.bind(n.in(), n.out(n.p.data()));
  CUgraph graph = nullptr;
  cuda::check(cuda::driver().cuStreamBeginCapture(n.stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), "capturing");
  launch.enqueue(n.stream);
  cuda::check(cuda::driver().cuStreamEndCapture(n.stream.get(), &graph), "ending a capture");
  CUgraphExec instances[2]{};
  for (CUgraphExec& x : instances) cuda::check(cuda::driver().cuGraphInstantiate(&x, graph, 0), "instantiating");
  for (int round = 0; round < 2; ++round)
    for (CUgraphExec x : instances) {
      n.p.poison(n.stream.get());
      cuda::check(cuda::driver().cuGraphLaunch(x, n.stream.get()), "replaying");
      wait(n.stream.get(), "an instance");
      EXPECT_EQ(n.result_in(n.p), n.expected.at("p").data);
    }
  for (CUgraphExec x : instances) cuda::driver().cuGraphExecDestroy(x);
  cuda::driver().cuGraphDestroy(graph);
}

// By slots, with a workspace of the caller's that held something else
TEST(NetworkSmall, RunsBySlot) {
  OnDevice n;
  const std::size_t bytes = n.executable.workspace_bytes({{"x", {2, 24, 5, 7}}});
  ASSERT_GT(bytes, 0u);
  Buffer room(bytes), elsewhere{2 * 24 * 5 * 7 * 4}, other{2 * 10 * 4};
  const HostTensors inputs = random_inputs({{"x", {2, 24, 5, 7}}}, 6);
  elsewhere.upload(inputs.at("x").data.data());
  NetworkLaunch launch =
      n.executable.bind(n.in(), n.out(n.p.data()), {.memory = room.data(), .bytes = bytes, .stream = n.stream});
  EXPECT_EQ(launch.workspace_bytes(), bytes);
  launch.enqueue(n.stream);
  launch.rebind(launch.slot("x"), elsewhere.data()), launch.rebind(launch.slot("p"), other.data());
  launch.enqueue(n.stream);
  wait(n.stream.get(), "runs by slot");
  EXPECT_EQ(n.result_in(n.p), n.expected.at("p").data);
  EXPECT_EQ(n.result_in(other), run(n.executable, inputs).at("p").data);
  EXPECT_TRUE(room.guards_hold() && other.guards_hold());
}

TEST(NetworkSmall, MisalignedTensors) {
  OnDevice n;
  auto in = n.in();
  in.at("x").data = static_cast<const std::byte*>(in.at("x").data) + 2;
  EXPECT_THAT(n.refusal([&] { n.executable.enqueue(in, n.out(n.p.data()), n.stream); }),
              testing::HasSubstr("expected a multiple of 4 bytes, as its dtype is f32"));
}

// Tensors of the device, to the last byte
TEST(NetworkSmall, MemoryThatIsTooSmall) {
  OnDevice n;
  const cuda::Memory few(device(), 16, "sixteen bytes");
  auto* const at = reinterpret_cast<void*>(few.address());
  for (int i = 0; i < 2; ++i)  // what was refused is not remembered as bound
    EXPECT_THAT(n.refusal([&] { n.executable.enqueue(n.in(), n.out(at), n.stream); }),
                testing::AllOf(testing::HasSubstr("output p was given the address"),
                               testing::HasSubstr("16 bytes of its allocation are left"),
                               testing::HasSubstr("expected 80 bytes")));
  EXPECT_THAT(n.refusal([&] { n.executable.run(n.in(), n.out(at)); }), testing::HasSubstr("output p was given"));
  auto in = n.in();
  in.at("x").data = at;
  EXPECT_THAT(n.refusal([&] { n.executable.run(in, n.out(n.p.data())); }), testing::HasSubstr("input x was given"));
  n.expect_served();
}

}  // namespace
}  // namespace unisono::gpu
