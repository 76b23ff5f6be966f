// Whole networks: ways to make a graph, replays, memory of either side, streams and threads, profiles, refusals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "gpu/options.hpp"
#include "network/cuda/run/plan.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

// By each of the ways to make a graph; unset again when this goes
struct GraphWay {
  explicit GraphWay(const char* way) { ::setenv("UNISONO_GRAPH", way, 1); }
  ~GraphWay() { ::unsetenv("UNISONO_GRAPH"); }
  GraphWay(const GraphWay&) = delete;
  GraphWay& operator=(const GraphWay&) = delete;
};

bool has_branches(const DeviceReport& report) {
  return std::any_of(report.launches.begin(), report.launches.end(),
                     [](const LaunchReport& l) { return l.how.find("; waits for ") != l.how.npos; });
}

// In a line, captured or node by node, and with branches: the same bits, also of replays
void same_by_every_way(std::size_t which, int replays) {
  const NetworkCase& c = network_cases()[which];
  ASSERT_TRUE(has_branches(explain_device(c.make(), on_gpu(c.precision), c.shapes))) << c.name;
  std::vector<HostTensors> inputs, expected;
  for (std::uint64_t i = 0; i < 2; ++i) inputs.push_back(random_inputs(c.shapes, i));
  {
    const GraphWay line("line");
    const NetworkExecutable executable = compile(c.make(), on_gpu(c.precision));
    for (const HostTensors& x : inputs) expected.push_back(run(executable, x));
  }
  for (const char* way : {"capture", "nodes"}) {
    const GraphWay set(way);
    const NetworkExecutable executable = compile(c.make(), on_gpu(c.precision));
    for (int i = 0; i < replays; ++i) {
      const auto at = static_cast<std::size_t>(i) % inputs.size();
      for (const auto& [name, t] : run(executable, inputs[at]))
        ASSERT_EQ(t.data, expected[at].at(name).data) << c.name << ", " << way << ", replay " << i << ", " << name;
    }
  }
}

TEST(NetworkSmall, GraphsOfEveryKindGiveTheSame) {
  same_by_every_way(1, 2);
  same_by_every_way(15, 2);
}
TEST(NetworkSmall, GraphsOfUnknownKindsAreRefused) {
  const NetworkCase& c = network_cases()[1];
  const GraphWay other("other");
  EXPECT_THROW(run(compile(c.make(), on_gpu(c.precision)), random_inputs(c.shapes, 1)), UserError);
}

// Kernels beside each other, again and again: a race or a deadlock would show
TEST(Network, ManyReplaysWithBranches) {
  for (const std::size_t which : {6u, 9u, 11u, 15u}) same_by_every_way(which, 3000);
}

TEST(NetworkSmall, ProfileSaysHowFarFromThePeaks) {
  const NetworkCase& c = network_cases()[0];
  const NetworkExecutable executable = compile(c.make(), on_gpu(c.precision));
  const HostTensors inputs = random_inputs(c.shapes, 1);
  HostTensors outputs = outputs_for(executable, inputs);
  std::vector<StepTime> profile;
  executable.run(views<ConstTensorView>(inputs), views<TensorView>(outputs), &profile);
  ASSERT_FALSE(profile.empty());
  double flop = 0;
  for (const StepTime& s : profile) {
    EXPECT_FALSE(s.how.empty()) << s.name;
    EXPECT_GT(s.bytes, 0) << s.name << ", " << s.what;
    EXPECT_GT(s.floor_ms, 0) << s.name;
    flop += s.flop;
  }
  EXPECT_GT(flop, 1e6);
  Shapes shapes;
  for (const auto& [name, t] : inputs) shapes[name] = t.shape;
  const MemoryReport memory = executable.memory(shapes);
  EXPECT_GE(memory.device_peak, memory.arena + memory.constants);
}

// The same values whichever memory they are in, in whatever order and type, and wherever that moves
TEST(NetworkSmall, CallersMemory) {
  const Network network = classifier(24, 10);
  const NetworkExecutable executable = compile(network, on_gpu());
  HostTensors inputs = random_inputs({{"x", {2, 24, 5, 7}}}, 3);
  for (float& x : inputs["x"].data) x = support::bf16_to_float(support::float_to_bf16(x));
  const HostTensors expected = run(executable, inputs);
  const HostTensor& x = inputs["x"];

  // pixels last to channels last, in 16 bits, in the GPU's memory, in two places
  std::vector<std::uint16_t> packed(x.data.size());
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t c = 0; c < 24; ++c)
      for (std::size_t i = 0; i < 35; ++i)
        packed[(n * 35 + i) * 24 + c] = support::float_to_bf16(x.data[(n * 24 + c) * 35 + i]);
  for (int place = 0; place < 2; ++place) {
    Buffer from(packed.size() * 2), to(2 * 10 * 4);
    from.upload(packed.data());
    const std::map<std::string, ConstTensorView> in{
        {"x", {from.data(), DType::bf16, {2, 24, 5, 7}, {5 * 7 * 24, 1, 7 * 24, 24}}}};
    const std::map<std::string, TensorView> out{{"p", {to.data(), DType::f32, {2, 10}, {}}}};
    executable.run(in, out);
    std::vector<float> result(20);
    to.download(result.data());
    EXPECT_EQ(result, expected.at("p").data);
    EXPECT_TRUE(from.guards_hold() && to.guards_hold());
  }

  // strides of the host
  std::vector<float> spread(40, -1);
  executable.run(views<ConstTensorView>(inputs), {{"p", {spread.data(), DType::f32, {2, 10}, {20, 2}}}});
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(spread[i], i % 2 == 0 ? expected.at("p").data[i / 2] : -1.0f) << i;
}

// A mirrored image in the GPU's memory: pixels from right to left, one by one and by octets of channels. Results lie
// forwards
TEST(NetworkSmall, NegativeStrides) {
  const Network network = classifier(24, 10);
  const NetworkExecutable executable = compile(network, on_gpu());
  const HostTensors inputs = random_inputs({{"x", {2, 24, 5, 7}}}, 4), expected = run(executable, inputs);
  const std::vector<float>& x = inputs.at("x").data;
  for (const bool octets : {false, true}) {
    const std::int64_t channel = octets ? 1 : 35, line = octets ? 7 * 24 : 7, pixel = octets ? 24 : 1;
    std::vector<float> mirrored(x.size());
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t c = 0; c < 24; ++c)
        for (std::int64_t i = 0; i < 35; ++i)
          mirrored[static_cast<std::size_t>(n * 840 + c * channel + i / 7 * line + (6 - i % 7) * pixel)] =
              x[static_cast<std::size_t>((n * 24 + c) * 35 + i)];
    Buffer from(mirrored.size() * 4), to(20 * 4);
    from.upload(mirrored.data());
    const std::map<std::string, ConstTensorView> backwards{{"x",
                                                            {static_cast<const float*>(from.data()) + 6 * pixel,
                                                             DType::f32,
                                                             {2, 24, 5, 7},
                                                             {840, channel, line, -pixel}}}};
    auto* const end = static_cast<float*>(to.data()) + 19;
    EXPECT_THROW(executable.run(backwards, {{"p", {end, DType::f32, {2, 10}, {-10, -1}}}}), UserError);
    executable.run(backwards, {{"p", {to.data(), DType::f32, {2, 10}, {}}}});
    std::vector<float> result(20);
    to.download(result.data());
    EXPECT_EQ(result, expected.at("p").data) << (octets ? "octets" : "pixels");
    EXPECT_TRUE(from.guards_hold() && to.guards_hold());
  }
}

HostTensor channels_last(const HostTensor& t) {
  const std::int64_t n = t.shape[0], c = t.shape[1], pixels = t.shape[2] * t.shape[3];
  HostTensor last{{n, t.shape[2], t.shape[3], c}, std::vector<float>(t.data.size())};
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < c; ++k)
      for (std::int64_t x = 0; x < pixels; ++x)
        last.data[static_cast<std::size_t>((i * pixels + x) * c + k)] =
            t.data[static_cast<std::size_t>((i * c + k) * pixels + x)];
  return last;
}

// Octets, single channels and pixels at the border: the same bits
TEST(NetworkSmall, OrdersOfCallersMemory) {
  const NetworkCase& c = network_cases()[9];
  NetworkOptions options = on_gpu();
  const HostTensors inputs = random_inputs(c.shapes, 2), expected = run(compile(c.make(), options), inputs);
  options.layout = Layout::nhwc;
  HostTensors turned;
  for (const auto& [name, t] : inputs) turned[name] = channels_last(t);
  for (const auto& [name, t] : run(compile(c.make(), options), turned)) {
    EXPECT_EQ(t.shape, channels_last(expected.at(name)).shape);
    EXPECT_EQ(t.data, channels_last(expected.at(name)).data) << name;
  }
}

TEST(NetworkSmall, StreamsAndThreads) {
  const Network network = classifier(24, 10);
  const NetworkExecutable executable = compile(network, on_gpu());
  const Shapes shapes{{"x", {2, 24, 5, 7}}};
  std::vector<HostTensors> inputs, expected;
  for (std::uint64_t i = 0; i < 4; ++i) {
    inputs.push_back(random_inputs(shapes, i));
    expected.push_back(run(executable, inputs.back()));
  }
  // ahead of the threads: uploads wait for the whole context, which nobody may do while another thread captures
  std::vector<std::unique_ptr<Buffer>> images;
  for (HostTensors& x : inputs) {
    images.push_back(std::make_unique<Buffer>(x["x"].data.size() * 4));
    images.back()->upload(x["x"].data.data());
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < inputs.size(); ++t)
    threads.emplace_back([&, t] {
      device();
      const TestStream stream;
      const Buffer& from = *images[t];
      Buffer to(20 * 4);
      for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(run(executable, inputs[t]).at("p").data, expected[t].at("p").data);
        to.poison(stream.get());
        executable.enqueue({{"x", {from.data(), DType::f32, {2, 24, 5, 7}, {}}}},
                           {{"p", {to.data(), DType::f32, {2, 10}, {}}}}, stream);
        wait(stream.get(), "a network");
        std::vector<float> result(20);
        to.download(result.data());
        EXPECT_EQ(result, expected[t].at("p").data);
      }
    });
  for (auto& t : threads) t.join();
}

TEST(NetworkSmall, Profile) {
  const Network network = classifier(24, 10);
  const NetworkExecutable executable = compile(network, on_gpu());
  const HostTensors inputs = random_inputs({{"x", {2, 24, 5, 7}}}, 3);
  HostTensors outputs = outputs_for(executable, inputs);
  std::vector<StepTime> profile;
  executable.run(views<ConstTensorView>(inputs), views<TensorView>(outputs), &profile);
  EXPECT_EQ(outputs.at("p").data, run(executable, inputs).at("p").data);
  EXPECT_EQ(profile.size(), explain_device(network, on_gpu(), {{"x", {2, 24, 5, 7}}}).launches.size());
  for (const StepTime& s : profile) EXPECT_GT(s.milliseconds, 0) << s.name;
}

std::string refusal(auto&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return std::string("user: ") + e.what();
  } catch (const Unsupported& e) {
    return std::string("unsupported: ") + e.what();
  } catch (const DeviceError& e) {
    return std::string("device: ") + e.what();
  }
  return "nothing";
}

TEST(NetworkSmall, Refusals) {
  using testing::AllOf;
  using testing::HasSubstr;
  const NetworkExecutable executable = compile(classifier(24, 10), on_gpu());
  const HostTensors inputs = random_inputs({{"x", {2, 24, 5, 7}}}, 3);
  HostTensors outputs = outputs_for(executable, inputs);
  EXPECT_THAT(refusal([&] { executable.enqueue(views<ConstTensorView>(inputs), views<TensorView>(outputs), nullptr); }),
              AllOf(HasSubstr("user"), HasSubstr("the memory of GPU")));
  auto wrong = views<ConstTensorView>(inputs);
  wrong["x"].dtype = DType::i32;
  EXPECT_THAT(refusal([&] { executable.run(wrong, views<TensorView>(outputs)); }),
              AllOf(HasSubstr("user"), HasSubstr("f32 or bf16 or f16")));
  EXPECT_THAT(refusal([] { compile(classifier(24, 10), on_gpu(DType::f32)); }), HasSubstr("precision"));
}

// One GPU holds no such image; the process goes on
TEST(Network, NotEnoughMemory) {
  if (device().device.name == "emulated GPU") GTEST_SKIP() << "it takes memory of the host";
  const Network network = heatmap_unet(small_unet);
  const NetworkExecutable executable = compile(network, on_gpu());
  const std::int64_t size = 12288;
  Buffer small(16);
  const std::map<std::string, ConstTensorView> in{{"image", {small.data(), DType::f32, {8, 3, size, size}, {}}}};
  const std::map<std::string, TensorView> out{{"heatmaps", {small.data(), DType::f32, {8, 10, size, size}, {}}}};
  EXPECT_THAT(refusal([&] { executable.run(in, out); }),
              testing::AnyOf(testing::HasSubstr("device: allocating"), testing::HasSubstr("unsupported")));
  const HostTensors inputs = random_inputs({{"image", {1, 3, 32, 32}}}, 5);
  expect_agreement(executable, on_gpu(), inputs, run(executable, inputs));
}

// Replays with changing inputs: each result that of its inputs, and no memory is lost
std::size_t resident_pages() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

// With inputs that change: every fiftieth result is compared, and neither side's memory grows
TEST(Network, ManyReplays) {
  const Network network = heatmap_unet(small_unet);
  const NetworkExecutable executable = compile(network, on_gpu());
  const Shapes shapes{{"image", {1, 3, 64, 64}}};
  std::vector<HostTensors> inputs, expected;
  for (std::uint64_t i = 0; i < 8; ++i) {
    inputs.push_back(random_inputs(shapes, i));
    expected.push_back(run(executable, inputs.back()));
  }
  std::vector<std::unique_ptr<Buffer>> from;
  for (const HostTensors& t : inputs) {
    from.push_back(std::make_unique<Buffer>(t.at("image").data.size() * 4));
    from.back()->upload(t.at("image").data.data());
  }
  const std::size_t bytes = expected[0].at("heatmaps").data.size() * 4;
  Buffer to(bytes);
  const TestStream stream;
  std::size_t before = 0, pages = 0;
  for (int i = 0; i < options().replays; ++i) {
    const auto which = static_cast<std::size_t>(i * 5 % 8);
    executable.enqueue({{"image", {from[which]->data(), DType::f32, {1, 3, 64, 64}, {}}}},
                       {{"heatmaps", {to.data(), DType::f32, {1, 10, 64, 64}, {}}}}, stream);
    if (i % 50 != 49) continue;
    wait(stream.get(), "a replay");
    std::vector<float> result(bytes / 4);
    to.download(result.data());
    ASSERT_EQ(result, expected[which].at("heatmaps").data) << "replay " << i;
    if (i < 200) before = device().held.now, pages = resident_pages();
  }
  EXPECT_EQ(device().held.now, before) << "bytes of the GPU that this process holds";
  EXPECT_LE(resident_pages(), pages + 1024) << "4 MB of the host";
}

}  // namespace
}  // namespace unisono::gpu
