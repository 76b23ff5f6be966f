// Several threads and streams, graph capture and replay, other users of the context.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "gpu/kernels.hpp"
#include "gpu/options.hpp"
#include "gpu/own_process.hpp"
#include "gpu/testbed.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/replay.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

using cuda::check;
using cuda::driver;

std::vector<Case> mixed_cases() {
  auto cases = endurance_cases(options().seed);
  cases.resize(12);
  return cases;
}

// Problems with their first result; each has outputs of its own, so that they may run at once.
struct Ready {
  Testbed testbed;
  Executable executable;
  std::vector<std::vector<std::byte>> expected;

  explicit Ready(const Case& c) : testbed(c), executable(testbed.compile()) {
    testbed.poison(nullptr);
    executable.run(testbed.arguments());
    expected = testbed.outputs();
  }
  void expect_same(const std::string& how) {
    EXPECT_EQ(testbed.outputs() == expected, true) << how << ": " << testbed.test_case().describe();
  }
};

std::vector<std::unique_ptr<Ready>> ready(const std::vector<Case>& cases) {
  std::vector<std::unique_ptr<Ready>> all;
  for (const Case& c : cases) all.push_back(std::make_unique<Ready>(c));
  return all;
}

TEST(Streams, ThreadsEachWithAStream) {
  auto all = ready(mixed_cases());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      device();
      const TestStream stream;
      for (int round = 0; round < 20; ++round)
        for (std::size_t i = t; i < all.size(); i += 4) {
          all[i]->testbed.poison(stream.get());
          all[i]->executable.enqueue(all[i]->testbed.arguments(), stream);
        }
      wait(stream.get(), "a thread's stream");
    });
  for (auto& t : threads) t.join();
  for (auto& r : all) r->expect_same("after threads");
}

// One executable in all threads at once, through run() and on streams of their own
TEST(Streams, OneExecutableForAllThreads) {
  const Case c = mixed_cases()[5];
  Ready first(c);
  std::vector<std::unique_ptr<Testbed>> testbeds;
  for (int i = 0; i < 6; ++i) testbeds.push_back(std::make_unique<Testbed>(c));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < testbeds.size(); ++t)
    threads.emplace_back([&, t] {
      device();
      const TestStream stream;
      const Arguments arguments = testbeds[t]->arguments();
      for (int round = 0; round < 50; ++round) {
        if (t % 2 == 0)
          first.executable.run(arguments);
        else
          first.executable.enqueue(arguments, stream);
      }
      wait(stream.get(), "a thread's stream");
    });
  for (auto& t : threads) t.join();
  for (auto& t : testbeds) EXPECT_EQ(t->outputs(), first.expected);
}

// A workspace for each stream is kept, and given up when there are too many
TEST(Streams, ManyShortLivedStreams) {
  Ready r(mixed_cases()[7]);
  for (int i = 0; i < 150; ++i) {
    const TestStream stream;
    r.testbed.poison(stream.get());
    r.executable.enqueue(r.testbed.arguments(), stream);
    wait(stream.get(), "a short-lived stream");
  }
  r.expect_same("on the 150th stream");
}

TEST(Streams, BoundLaunchesOnTwoStreams) {
  auto all = ready(mixed_cases());
  const TestStream one, two;
  std::vector<Launch> launches;
  for (auto& r : all) launches.push_back(r->executable.bind(r->testbed.arguments()));
  for (auto& r : all) r->testbed.poison(nullptr);
  wait(nullptr, "poisoning");
  for (int round = 0; round < 50; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) launches[i].enqueue(i % 2 == 0 ? one : two);
  wait(one.get(), "the first stream");
  wait(two.get(), "the second stream");
  for (auto& r : all) r->expect_same("bound");
}

// The launch keeps the kernel alive
TEST(Streams, LaunchOutlivesItsExecutable) {
  Ready r(mixed_cases()[6]);
  const TestStream stream;
  const Launch launch = [&] { return r.testbed.compile().bind(r.testbed.arguments()); }();
  r.testbed.poison(stream.get());
  launch.enqueue(stream);
  wait(stream.get(), "a launch without its executable");
  r.expect_same("alone");
}

// Cooperative ones, clusters and plain ones in a row: the graph that is made node by node is the one that is captured
TEST(GraphsSmall, NodesAreTheCapturedOnes) {
  std::vector<std::unique_ptr<Testbed>> testbeds;
  std::vector<Launch> launches;
  for (const Case& c : sanitizer_cases()) {
    testbeds.push_back(std::make_unique<Testbed>(c));
    launches.push_back(testbeds.back()->compile().bind(testbeds.back()->arguments()));
  }
  ASSERT_GT(launches.size(), 4u);
  const int index = device().index;
  const cuda::Replay captured(index, launches, {}, cuda::GraphBy::capture);
  const cuda::Replay made(index, launches, {}, cuda::GraphBy::nodes);
  EXPECT_EQ(made.kernel_nodes(), launches.size());
  EXPECT_EQ(made.describe(), captured.describe());
  EXPECT_NE(made.describe().find("cooperative; port 1 type 1"), std::string::npos) << made.describe();
}

TEST(GraphsSmall, NodesComputeWhatLaunchesDo) {
  std::vector<Case> cases = sanitizer_cases();
  if (device().device.name == "emulated GPU") {  // which ran them all for --sanitizer, in a minute
    std::vector<Case> some;                      // from an exchange between all blocks and one in clusters on
    for (std::size_t i = 0; i < cases.size(); i += 7) some.push_back(cases[i]);
    cases = some;
  }
  auto all = ready(cases);
  std::vector<Launch> launches;
  for (auto& r : all) launches.push_back(r->executable.bind(r->testbed.arguments()));
  const cuda::Replay made(device().index, launches, {}, cuda::GraphBy::nodes);
  const TestStream stream;
  for (auto& r : all) r->testbed.poison(stream.get());
  made.enqueue(stream);
  wait(stream.get(), "a graph made of nodes");
  for (auto& r : all) r->expect_same("by nodes");
}

// What breaks a capture: another thread waits for the whole context
TEST(Graphs, NodesWhileAnotherThreadWaits) {
  auto all = ready(mixed_cases());
  std::vector<Launch> launches;
  for (auto& r : all) launches.push_back(r->executable.bind(r->testbed.arguments()));
  std::atomic<bool> done = false;
  std::thread other([&] {
    const cuda::Current current(device());
    while (!done) driver().cuCtxSynchronize();
  });
  for (int i = 0; i < 50; ++i) {
    const cuda::Replay replay(device().index, launches, {}, cuda::GraphBy::nodes);
    EXPECT_EQ(replay.kernel_nodes(), all.size());
  }
  done = true;
  other.join();
}

TEST(Graphs, BoundLaunchesReplay) {
  auto all = ready(mixed_cases());
  const TestStream stream;
  std::vector<Launch> launches;
  for (auto& r : all) launches.push_back(r->executable.bind(r->testbed.arguments()));
  const TestGraph graph(stream.get(), [&] {
    for (const Launch& l : launches) l.enqueue(stream);
  });
  EXPECT_EQ(graph.kernel_nodes(), all.size());
  EXPECT_EQ(graph.nodes(), all.size()) << "a launch is one kernel and nothing else";
  for (int round = 0; round < 20; ++round) {
    for (auto& r : all) r->testbed.poison(stream.get());
    graph.replay(stream.get());
  }
  wait(stream.get(), "replays");
  for (auto& r : all) r->expect_same("replayed");
}

// enqueue() during a capture makes a workspace of the node's own: the graph and the stream may then run at once
TEST(Graphs, EnqueueIsCaptured) {
  auto all = ready(mixed_cases());
  const TestStream stream, other;
  const TestGraph graph(stream.get(), [&] {
    for (auto& r : all) r->executable.enqueue(r->testbed.arguments(), stream);
  });
  EXPECT_EQ(graph.kernel_nodes(), all.size());
  std::vector<std::unique_ptr<Testbed>> beside;
  for (auto& r : all) beside.push_back(std::make_unique<Testbed>(r->testbed.test_case()));
  for (int round = 0; round < 10; ++round) {
    graph.replay(other.get());
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->executable.enqueue(beside[i]->arguments(), stream);
  }
  wait(stream.get(), "the stream");
  wait(other.get(), "the graph");
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->expect_same("captured");
    EXPECT_EQ(beside[i]->outputs() == all[i]->expected, true) << beside[i]->test_case().describe();
  }
}

// A caller that has another context current, or none, keeps it
TEST(Contexts, AreLeftAsTheyWere) {
  Ready r(mixed_cases()[4]);
  std::thread([&] {
    CUcontext before = nullptr, after = nullptr;
    check(driver().cuCtxGetCurrent(&before), "asking for the context");
    EXPECT_EQ(before, nullptr);
    r.executable.run(r.testbed.arguments());
    const Launch launch = r.executable.bind(r.testbed.arguments());
    launch.enqueue(nullptr);
    check(driver().cuCtxGetCurrent(&after), "asking for the context");
    EXPECT_EQ(after, nullptr);
  }).join();
  wait(nullptr, "a launch from a thread without a context");
  r.expect_same("without a context");
}

// The driver's function, which the library does not call; null where the driver lacks it
using Reset = CUresult (*)(CUdevice);
Reset reset_of_the_driver() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? reinterpret_cast<Reset>(::dlsym(library, "cuDevicePrimaryCtxReset_v2")) : nullptr;
}

// How many of the ways to use a GPU say that it was reset
int refusals_of(const std::vector<std::function<void()>>& ways) {
  int refused = 0;
  for (const auto& way : ways) try {
      way();
      std::printf("no error\n");
    } catch (const DeviceError& e) {
      const bool says = std::string(e.what()).find("was reset after") != std::string::npos;
      if (!says) std::printf("another error: %s\n", e.what());
      refused += says;
    }
  return refused;
}

// The context is gone, and then there is another in its place; what is gone is not given back to that one
TEST(Contexts, DISABLED_AReset) {
  int refused = 0;
  {
    Testbed testbed(mixed_cases()[4]);
    const Executable executable = testbed.compile();
    const Arguments arguments = testbed.arguments();
    const Launch launch = executable.bind(arguments);
    executable.run(arguments);
    const std::vector<std::function<void()>> ways{
        [&] { executable.run(arguments); }, [&] { executable.enqueue(arguments, nullptr); },
        [&] { executable.bind(arguments); }, [&] { const cuda::Memory few(device(), 16, "sixteen bytes"); }};
    check(reset_of_the_driver()(device().handle), "resetting the GPU");
    refused += refusals_of(ways);
    CUcontext other = nullptr;
    check(driver().cuDevicePrimaryCtxRetain(&other, device().handle), "making another context");
    refused += refusals_of(ways);
  }
  std::printf("refused: %d of 8\n", refused);
  std::fflush(stdout);
  std::_Exit(0);
}

TEST(Contexts, AResetIsFound) {
  if (reset_of_the_driver() == nullptr) GTEST_SKIP() << "this driver has no reset";
  EXPECT_THAT(said_by("Contexts.DISABLED_AReset"), ::testing::HasSubstr("refused: 8 of 8"));
}

}  // namespace
}  // namespace unisono::gpu
