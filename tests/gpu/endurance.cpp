#include "gpu/endurance.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "gpu/broad_run.hpp"
#include "gpu/kernels.hpp"
#include "gpu/options.hpp"
#include "gpu/testbed.hpp"
#include "runtime/cuda/driver.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

namespace {

using cuda::check;
using cuda::driver;
using Clock = std::chrono::steady_clock;

// A problem that one stream runs: its arguments are bound, its first result is kept
class Slot {
 public:
  explicit Slot(const Case& c) : testbed_(c), launch_(testbed_.compile().bind(testbed_.arguments())), counter_(8) {
    check(driver().cuMemsetD8Async(counter_.address(), 0, 8, nullptr), "clearing a counter");
    testbed_.poison(nullptr);
    launch_.enqueue(nullptr);
    for (const std::string& name : testbed_.output_names()) {
      const Buffer& y = *testbed_.tensor(name).device;
      first_.push_back(std::make_unique<Buffer>(y.bytes()));
      check(driver().cuMemcpyAsync(first_.back()->address(), y.address(), y.bytes(), nullptr), "keeping a result");
    }
    wait(nullptr, "the first launch of " + c.describe());
  }

  // One launch on poisoned outputs, and its comparison
  void enqueue(CUstream stream) {
    testbed_.poison(stream);
    launch_.enqueue(stream);
    const auto names = testbed_.output_names();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Buffer& y = *testbed_.tensor(names[i]).device;
      launch("unisono_differences", 64 * 256, stream, y.address(), first_[i]->address(),
             static_cast<unsigned long long>(y.bytes() / 4), counter_.address());
    }
    ++launches;
  }
  unsigned long long differences() const {
    unsigned long long count = 0;
    counter_.download(&count);
    return count;
  }
  std::string describe() const { return testbed_.test_case().describe(); }
  long long launches = 0;

 private:
  template <class... A>
  static void launch(const char* name, std::uint64_t threads, CUstream stream, A... arguments) {
    gpu::launch(name, threads, stream, arguments...);
  }
  Testbed testbed_;
  Launch launch_;
  Buffer counter_;
  std::vector<std::unique_ptr<Buffer>> first_;
};

struct Lane {
  TestStream stream;
  std::vector<std::unique_ptr<Slot>> slots;
  std::unique_ptr<TestGraph> graph;
  std::string running;  // for the message of a hang
};

// Short kernels on a third of the chip, one after another, for as long as it lives
class BusyStream {
 public:
  BusyStream() : out_(4), thread_([this] { run(); }) {}
  ~BusyStream() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run() {
    device();
    const TestStream stream;
    while (!stop_) {
      for (int i = 0; i < 16; ++i) launch("unisono_busy", 48 * 256, stream.get(), 60000ll, out_.address());
      wait(stream.get(), "the busy stream", 120);
    }
  }
  Buffer out_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr int graph_nodes = 25, replays = 40, plain_batch = 200;

std::vector<Case> cases_to_run() {
  if (options().broad > 0) return broad_endurance_cases();
  return options().delays ? delay_cases(options().seed) : endurance_cases(options().seed);
}

class Endurance {
 public:
  Endurance() : random_(options().seed ^ static_cast<std::uint64_t>(::getpid()) << 32) {
    const auto cases = cases_to_run();
    compiler().compile(requests_of(cases));
    for (const Case& c : cases)
      for (Lane& lane : lanes_) lane.slots.push_back(std::make_unique<Slot>(c));
    std::printf("[%d] %zu problems on two streams, seed %llu\n", ::getpid(), cases.size(),
                static_cast<unsigned long long>(options().seed));
    std::fflush(stdout);
  }

  int run() {
    const BusyStream busy;
    const auto start = Clock::now();
    auto reported = start;
    for (bool graphs = false; done_ < options().endurance; graphs = !graphs) {
      if (options().seconds > 0 && Clock::now() - start > std::chrono::seconds(options().seconds)) break;
      if (graphs)
        replay();
      else
        plain();
      for (Lane& lane : lanes_) gpu::wait(lane.stream.get(), lane.running, options().delays ? 240 : 120);
      if (Clock::now() - reported > std::chrono::seconds(20)) report(start), reported = Clock::now();
    }
    report(start);
    return judge();
  }

 private:
  Slot& draw(Lane& lane) {
    return *lane.slots[static_cast<std::size_t>(random_.below(static_cast<int>(lane.slots.size())))];
  }

  void plain() {
    for (Lane& lane : lanes_) lane.running = "plain launches, the last of:";
    for (int i = 0; i < plain_batch; ++i)
      for (Lane& lane : lanes_) {
        Slot& slot = draw(lane);
        slot.enqueue(lane.stream.get());
        if (i >= plain_batch - 8) lane.running += "\n" + slot.describe();
        ++done_;
      }
  }

  void replay() {
    for (Lane& lane : lanes_) {
      lane.running = "replays of a graph of:";
      lane.graph = std::make_unique<TestGraph>(
          lane.stream.get(),
          [&] {
            for (int i = 0; i < graph_nodes; ++i) {
              Slot& slot = draw(lane);
              slot.enqueue(lane.stream.get());
              lane.running += "\n" + slot.describe();
            }
          },
          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    }
    for (int i = 0; i < replays; ++i)
      for (Lane& lane : lanes_) lane.graph->replay(lane.stream.get()), done_ += graph_nodes;
  }

  void report(Clock::time_point start) const {
    const std::chrono::duration<double> passed = Clock::now() - start;
    std::printf("[%d] %lld launches in %.1f s\n", ::getpid(), done_, passed.count());
    std::fflush(stdout);
  }

  int judge() const {
    int wrong = 0;
    for (const Lane& lane : lanes_)
      for (const auto& slot : lane.slots)
        if (const auto count = slot->differences(); count != 0) {
          std::printf("WRONG: %llu words differ from the first launch's: %s\n", count, slot->describe().c_str());
          ++wrong;
        }
    std::printf("[%d] endurance: %lld launches, %d problems with wrong bits\n", ::getpid(), done_, wrong);
    return wrong == 0 ? 0 : 1;
  }

  test::Random random_;
  Lane lanes_[2];
  long long done_ = 0;
};

// Each process takes its share; all run the same problems, in an order of their own
int run_processes(const char* program) {
  std::vector<pid_t> children;
  for (int i = 0; i < options().processes; ++i) {
    const std::string launches = std::to_string(options().endurance / options().processes);
    const bool broad = options().broad > 0;  // the same problems then, whose kernels are compiled
    const std::string seed = std::to_string(options().seed + (broad ? 0 : 1000u * static_cast<unsigned>(i)));
    const std::string index = std::to_string(options().device), seconds = std::to_string(options().seconds),
                      problems = std::to_string(options().broad);
    const pid_t child = ::fork();
    if (child == 0) {
      const char* const words[] = {program,       "--endurance",    launches.c_str(),
                                   "--seed",      seed.c_str(),     "--device",
                                   index.c_str(), "--seconds",      seconds.c_str(),
                                   "--broad",     problems.c_str(), options().delays ? "--delays" : nullptr,
                                   nullptr};
      ::execv("/proc/self/exe", const_cast<char* const*>(words));
      std::_Exit(127);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : children) {
    int status = 0;
    if (::waitpid(child, &status, 0) != child)
      worst = std::max(worst, 2);
    else
      worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 128);
  }
  std::printf("%d processes, exit code %d\n", options().processes, worst);
  return worst;
}

}  // namespace

int run_endurance(const char* program) {
  if (options().processes > 1) return run_processes(program);
  return Endurance().run();
}

}  // namespace unisono::gpu
