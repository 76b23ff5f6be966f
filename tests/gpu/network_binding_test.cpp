// Streams and memory of the caller: captures, runs by slot, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "gpu/options.hpp"
#include "gpu/own_process.hpp"
#include "runtime/cuda/driver.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

// A network of one input and one output, with its tensors in the GPU's memory; a classifier unless told otherwise
struct OnDevice {
  NetworkExecutable executable;
  HostTensors inputs, expected;
  std::string input, output;
  Sizes from_shape, to_shape;
  Buffer x, p;
  TestStream stream;

  explicit OnDevice(const Network& network = classifier(24, 10), const Shapes& shapes = {{"x", {2, 24, 5, 7}}},
                    const NetworkOptions& options = on_gpu())
      : executable(compile(network, options)),
        inputs(random_inputs(shapes, 5)),
        expected(run(executable, inputs)),
        input(inputs.begin()->first),
        output(expected.begin()->first),
        from_shape(inputs.begin()->second.shape),
        to_shape(expected.begin()->second.shape),
        x(inputs.begin()->second.data.size() * 4),
        p(result_bytes()) {
    x.upload(inputs.at(input).data.data());
  }
  std::size_t result_bytes() const { return expected.at(output).data.size() * 4; }
  std::map<std::string, ConstTensorView> in() const { return {{input, {x.data(), DType::f32, from_shape, {}}}}; }
  std::map<std::string, TensorView> out(void* to) const { return {{output, {to, DType::f32, to_shape, {}}}}; }
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
    EXPECT_TRUE(is_expected(p));
  }
  std::vector<float> result_in(const Buffer& from) const {
    std::vector<float> result(from.bytes() / 4);
    from.download(result.data());
    return result;
  }
  bool is_expected(const Buffer& from) const { return result_in(from) == expected.at(output).data; }
};

// Its kernels have a few CTAs each, which exchange statistics
struct UNetOnDevice : OnDevice {
  explicit UNetOnDevice(const UNetShape& shape = small_unet, const NetworkOptions& options = on_gpu())
      : OnDevice(heatmap_unet(shape), shapes(), options) {
    int exchanging = 0;
    for (const LaunchReport& l : executable_report().launches) exchanging += l.how.find("resident") != l.how.npos;
    EXPECT_GT(exchanging, 3) << "without an exchange of statistics this shows nothing";
  }
  static Shapes shapes() { return {{"image", {1, 3, 32, 48}}}; }
  DeviceReport executable_report() const { return explain_device(executable.network(), on_gpu(), shapes()); }
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
void replay_beside_each_other(OnDevice&& n, int replays) {
  Buffer first{n.result_bytes()}, second{n.result_bytes()};
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
    for (const Buffer* x : {&first, &second, &n.p}) ASSERT_TRUE(n.is_expected(*x)) << i;
  }
}
TEST(NetworkSmall, CapturesRunBesideEachOther) { replay_beside_each_other(OnDevice(), 3); }
TEST(NetworkSmall, CapturesThatExchangeStatistics) { replay_beside_each_other(UNetOnDevice(), 1); }
TEST(Network, ManyReplaysOfTwoCaptures) { replay_beside_each_other(OnDevice(), options().replays); }
TEST(Network, ManyReplaysThatExchangeStatistics) { replay_beside_each_other(UNetOnDevice(), options().replays); }

// Two instances of one capture, one after the other
void run_instances_in_turn(OnDevice&& n) {
  const NetworkLaunch launch = n.executable.bind(n.in(), n.out(n.p.data()));
  const TestGraph graph(
      n.stream.get(), [&] { launch.enqueue(n.stream); }, CU_STREAM_CAPTURE_MODE_GLOBAL, 2);
  for (int round = 0; round < 2; ++round)
    for (const std::size_t instance : {0u, 1u}) {
      n.p.poison(n.stream.get());
      graph.replay(n.stream.get(), instance);
      wait(n.stream.get(), "an instance");
      EXPECT_TRUE(n.is_expected(n.p)) << "round " << round << ", instance " << instance;
    }
}
TEST(NetworkSmall, InstancesOfACapture) {
  run_instances_in_turn(OnDevice());
  run_instances_in_turn(UNetOnDevice());
}

NetworkOptions watched() {
  NetworkOptions options = on_gpu();
  options.watchdog = true;
  return options;
}

// Both instances of one capture at once, which ends the context. What is ahead of the first one takes a while and then
// another: the two start at many distances from each other, and near ones are among them. The GPU is waited for after
// each pair: the driver does not survive a graph's launch into a context that an earlier one has ended.
TEST(Network, DISABLED_TwoInstancesOfACapture) {
  UNetOnDevice n({.inputs = 3, .classes = 10, .channels = {128, 256}, .groups = 8}, watched());  // longer kernels
  const NetworkLaunch launch = n.executable.bind(n.in(), n.out(n.p.data()));
  const TestStream one, two;
  const TestGraph graph(
      one.get(), [&] { launch.enqueue(one); }, CU_STREAM_CAPTURE_MODE_GLOBAL, 2);
  std::vector<std::unique_ptr<Buffer>> ahead;
  for (std::size_t mb = 2; mb <= 64; mb += 2) ahead.push_back(std::make_unique<Buffer>(mb << 20));
  say_what_ends([&] {
    for (std::size_t i = 0; i < 3000; ++i) {
      ahead[i % ahead.size()]->poison(one.get());
      graph.replay(one.get(), 0), graph.replay(two.get(), 1);
      wait(one.get(), "one instance"), wait(two.get(), "the other instance");
    }
  });
}

TEST(Network, InstancesOfACaptureAtOnceAreFound) {
  if (device().device.name == "emulated GPU") GTEST_SKIP() << "its launches come one after another";
  EXPECT_THAT(said_by("Network.DISABLED_TwoInstancesOfACapture"), testing::HasSubstr("CUDA_ERROR_MISALIGNED_ADDRESS"));
}

// One after the other they are no error with the watchdog, either
TEST(Network, WatchedInstancesOfACapture) { run_instances_in_turn(UNetOnDevice(small_unet, watched())); }

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
    EXPECT_THAT(
        n.refusal([&] { n.executable.enqueue(n.in(), n.out(at), n.stream); }),
        testing::AllOf(testing::HasSubstr("output p was given the address"),
                       testing::HasSubstr("16 bytes of its allocation"), testing::HasSubstr("expected 80 bytes")));
  EXPECT_THAT(n.refusal([&] { n.executable.run(n.in(), n.out(at)); }), testing::HasSubstr("output p was given"));
  auto in = n.in();
  in.at("x").data = at;
  EXPECT_THAT(n.refusal([&] { n.executable.run(in, n.out(n.p.data())); }), testing::HasSubstr("input x was given"));
  n.expect_served();
}

}  // namespace
}  // namespace unisono::gpu
