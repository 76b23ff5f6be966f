// How runs with host steps behave: streams and threads, the caller's workspace, errors, cancellation, what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <tuple>

#include "gpu/device.hpp"
#include "host_steps/networks.hpp"
#include "support/says.hpp"
#include "unisono/cancel.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

using testing::HasSubstr;

const Sizes image{2, 16, 6, 10};

class HostSteps : public testing::Test {
  const OperatorsOnHost on_host_;
};

// A network of one step with its tensors in the GPU's memory
struct OnDevice {
  NetworkExecutable executable = compile(reversed_between_convolutions(), on_gpu());
  HostTensors inputs = random_inputs({{"x", image}}, 5), expected = run(executable, inputs);
  std::size_t bytes = inputs.at("x").data.size() * 4;
  Buffer x{bytes}, y{bytes};
  TestStream stream;

  OnDevice() { x.upload(inputs.at("x").data.data()); }
  std::map<std::string, ConstTensorView> in() const { return {{"x", {x.data(), DType::f32, image, {}}}}; }
  std::map<std::string, TensorView> out(const Buffer& to) const { return {{"y", {to.data(), DType::f32, image, {}}}}; }
  std::vector<float> result_in(const Buffer& from) const {
    std::vector<float> result(from.bytes() / 4);
    from.download(result.data());
    return result;
  }
};

std::string refusal(auto&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return std::string("user: ") + e.what();
  } catch (const Unsupported& e) {
    return std::string("unsupported: ") + e.what();
  }
  return "accepted";
}

void run_beside_each_other(int rounds) {
  OnDevice n;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      device();
      const TestStream stream;
      Buffer to(n.bytes);
      for (int round = 0; round < rounds; ++round) {
        EXPECT_EQ(run(n.executable, n.inputs).at("y").data, n.expected.at("y").data);
        to.poison(stream.get());
        n.executable.enqueue(n.in(), n.out(to), stream);
        wait(stream.get(), "a network");
        EXPECT_EQ(n.result_in(to), n.expected.at("y").data);
      }
    });
  for (auto& t : threads) t.join();
}
TEST_F(HostSteps, StreamsAndThreads) { run_beside_each_other(2); }
TEST_F(HostSteps, ManyStreamsAndThreads) { run_beside_each_other(500); }

// One behind the other on one stream, with tensors that move: each result is that of its inputs
void run_behind_each_other(int rounds) {
  OnDevice n;
  const HostTensors others = random_inputs({{"x", image}}, 6), expected = run(n.executable, others);
  Buffer other{n.bytes}, to{n.bytes};
  other.upload(others.at("x").data.data());
  const NetworkLaunch launch = n.executable.bind(n.in(), n.out(n.y));
  NetworkLaunch second = launch;
  for (int round = 0; round < rounds; ++round) {
    second.rebind(second.slot("x"), n.x.data()), second.rebind(second.slot("y"), n.y.data());
    second.enqueue(n.stream);
    second.rebind(second.slot("x"), other.data()), second.rebind(second.slot("y"), to.data());
    second.enqueue(n.stream);
    if (round % 100 != 99 && round + 1 != rounds) continue;
    wait(n.stream.get(), "two runs");
    ASSERT_EQ(n.result_in(n.y), n.expected.at("y").data) << round;
    ASSERT_EQ(n.result_in(to), expected.at("y").data) << round;
  }
}
TEST_F(HostSteps, BehindEachOther) { run_behind_each_other(3); }
TEST_F(HostSteps, ManyBehindEachOther) { run_behind_each_other(5000); }

// The tensors of host steps lie in the workspace, of which workspace_bytes() says all
TEST_F(HostSteps, InAWorkspaceOfTheCallers) {
  OnDevice n;
  const std::size_t bytes = n.executable.workspace_bytes({{"x", image}});
  EXPECT_GE(bytes, 2 * 2 * 24 * 60 * sizeof(float)) << "what crosses there and back";
  Buffer room(bytes);
  const NetworkLaunch launch =
      n.executable.bind(n.in(), n.out(n.y), {.memory = room.data(), .bytes = bytes, .stream = n.stream});
  EXPECT_EQ(launch.workspace_bytes(), bytes);
  for (int i = 0; i < 2; ++i) {
    n.y.poison(n.stream.get());
    launch.enqueue(n.stream);
    wait(n.stream.get(), "a run in the caller's workspace");
    EXPECT_EQ(n.result_in(n.y), n.expected.at("y").data);
  }
  EXPECT_TRUE(room.guards_hold() && n.y.guards_hold());
}

// An index outside is an error of the run that has it; the next run is right. All numbers are such that 16 bits hold
TEST_F(HostSteps, ThatFail) {
  const NetworkExecutable executable = compile(gathered_rows(), on_gpu());
  const std::vector<std::size_t> places{7, 0, 3, 3};
  HostTensors inputs{{"data", {{8, 16}, {}}}, {"places", {{4}, {places.begin(), places.end()}}}};
  for (int i = 0; i < 8 * 16; ++i) inputs["data"].data.push_back(static_cast<float>(i % 37 - 18));
  std::vector<float> expected;
  for (const std::size_t place : places)
    for (std::size_t i = 0; i < 16; ++i) expected.push_back(std::max(inputs["data"].data[place * 16 + i], 0.0F));
  for (int i = 0; i < 2; ++i) {
    inputs["places"].data[1] = 8;
    EXPECT_THAT(refusal([&] { run(executable, inputs); }), testing::AllOf(HasSubstr("user: "), HasSubstr("'rows'")));
    inputs["places"].data[1] = 0;
    EXPECT_EQ(run(executable, inputs).at("y").data, expected);
  }
}

// Integers and bool from the caller, from step to step past kernels, and back: exactly, with numbers that 16 bits hold
TEST_F(HostSteps, OfIntegersAndBool) {
  NetworkBuilder net("integers");
  const NetworkValue data = net.input("data", {8, 16}), places = net.input("places", {4}, DType::i64);
  const NetworkValue rows = relu(net.apply(operators::Gather{.axis = 0}, {relu(data), places}));
  const NetworkValue largest = net.apply(operators::ArgReduce{.axis = 1, .keep = false}, {rows});
  net.output(net.apply(operators::Map{.op = MapOp::add}, {largest, places}), "sum");
  net.output(net.apply(operators::Map{.op = MapOp::less}, {data, net.constant(0.0)}), "negative");
  net.output(rows, "rows");
  const Network network = net.build();
  std::vector<float> numbers;
  for (int i = 0; i < 8 * 16; ++i) numbers.push_back(static_cast<float>(i * 29 % 37 - 18));
  const std::int64_t indices[] = {7, 0, -3, 3};
  const auto result = [&](const NetworkOptions& options) {
    std::vector<std::int64_t> sum(4, 99);
    std::vector<std::uint8_t> negative(8 * 16, 7);
    std::vector<float> picked(4 * 16, -1);
    compile(network, options)
        .run({{"data", {numbers.data(), DType::f32, {8, 16}, {}}}, {"places", {indices, DType::i64, {4}, {}}}},
             {{"sum", {sum.data(), DType::i64, {4}, {}}},
              {"negative", {negative.data(), DType::boolean, {8, 16}, {}}},
              {"rows", {picked.data(), DType::f32, {4, 16}, {}}}});
    return std::tuple(sum, negative, picked);
  };
  EXPECT_EQ(result(on_gpu()), result({}));
}

// 999 is 1000 in bf16, and its sine another
TEST_F(HostSteps, SinesOfADiffusionProcessesStep) {
  NetworkBuilder net("embedding");
  const NetworkValue t =
      net.apply(operators::Map{.op = MapOp::cast, .to = DType::f32}, {net.input("t", {2}, DType::i64)});
  std::vector<float> frequencies, weights;
  for (int i = 0; i < 8; ++i) frequencies.push_back(1.0F / static_cast<float>(1 + i));
  for (int i = 0; i < 16 * 8; ++i) weights.push_back(static_cast<float>(i * 5 % 7 - 3) / 8);
  const NetworkValue angle = reshape(t, {2, 1}) * net.constant("f", {1, 8}, frequencies);
  const NetworkValue both = concat({elementwise(Op::sin, {angle}), elementwise(Op::cos, {angle})});
  net.output(gemm(both, net.constant("w", {16, 8}, weights)), "y");
  const Network network = net.build();
  const std::int64_t steps[] = {999, 1};
  const auto result = [&](const NetworkOptions& options) {
    std::vector<float> y(2 * 8, -99);
    compile(network, options).run({{"t", {steps, DType::i64, {2}, {}}}}, {{"y", {y.data(), DType::f32, {2, 8}, {}}}});
    return y;
  };
  const std::vector<float> expected = result({}), actual = result(on_gpu());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 0.02) << i;
}

// A tensor of five axes that kernels read lies in the GPU's memory row by row
TEST_F(HostSteps, TensorsOfManyAxesWithGaps) {
  NetworkBuilder net("axes");
  net.output(relu(net.input("x", {2, 1, 2, 2, 3})), "y");
  const NetworkExecutable executable = compile(net.build(), on_gpu());
  const Sizes shape{2, 1, 2, 2, 3};
  Buffer x(2 * 24 * 4), y(24 * 4);
  const auto enqueue = [&](const Sizes& strides) {
    const TestStream stream;
    executable.enqueue({{"x", {x.data(), DType::f32, shape, strides}}}, {{"y", {y.data(), DType::f32, shape, {}}}},
                       stream);
    wait(stream.get(), "a network");
  };
  EXPECT_THAT(refusal([&] {
                enqueue({24, 24, 12, 6, 2});
              }),
              HasSubstr("input x has 5 axes and strides (24,24,12,6,2)"));
  EXPECT_EQ(refusal([&] { enqueue({12, 5, 6, 3, 1}); }), "accepted") << "the stride of an axis of one is none";
}

// A run that is enqueued ends at its first step, if it is to end; the next one is right
TEST_F(HostSteps, ThatAreCancelled) {
  OnDevice n;
  {
    const std::atomic<bool> requested = true;
    const Cancellation cancellation(requested);
    EXPECT_THROW(n.executable.enqueue(n.in(), n.out(n.y), n.stream), Cancelled);
  }
  n.executable.enqueue(n.in(), n.out(n.y), n.stream);
  wait(n.stream.get(), "a network");
  EXPECT_EQ(n.result_in(n.y), n.expected.at("y").data);
}

TEST_F(HostSteps, AreRefusedByNameWhereTheyCannotBe) {
  NetworkOptions strict = on_gpu();
  strict.strict = true;
  const NetworkExecutable refused = compile(reversed_between_convolutions(), strict);
  EXPECT_THAT(refusal([&] {
                refused.memory({{"x", image}});
              }),
              Says("unsupported: NetworkOptions::strict is set, … compute\n  gather 'reversed': UNISONO_HOST_STEPS "
                   "names gather"));
  NetworkBuilder net("kernels");
  net.output(relu(net.input("x", {2, 8})), "y");
  EXPECT_EQ(refusal([&, served = compile(net.build(), strict)] { served.memory({{"x", {2, 8}}}); }), "accepted");
}

TEST_F(HostSteps, AreInNoCapture) {
  OnDevice n;
  const NetworkLaunch launch = n.executable.bind(n.in(), n.out(n.y));
  const auto enqueues = {std::function<void()>([&] { n.executable.enqueue(n.in(), n.out(n.y), n.stream); }),
                         std::function<void()>([&] { launch.enqueue(n.stream); })};
  for (const auto& enqueue : enqueues) {
    std::string text;
    const TestGraph graph(n.stream.get(), [&] { text = refusal(enqueue); });
    EXPECT_THAT(text, Says("unsupported: a network … captured: gather 'reversed': "));
    EXPECT_EQ(graph.nodes(), 0u);
  }
  launch.enqueue(n.stream);
  wait(n.stream.get(), "a network");
  EXPECT_EQ(n.result_in(n.y), n.expected.at("y").data);
}

}  // namespace
}  // namespace unisono::gpu
