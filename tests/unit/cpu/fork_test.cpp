// Children of fork(): they end, run networks again, and never wait for threads that are not there.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <system_error>
#include <thread>

#include "runtime/cpu/worker_pool.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {
namespace {

constexpr int threads = 3;
constexpr unsigned patience_seconds = 60;  // of a child: far above what it takes, under a sanitizer too

class Fork : public testing::Test {
 protected:
  Fork() {
    for (std::size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<float>(i % 17) / 16;
    expected_ = run();
  }

  // The allocator of LLVM 14's AddressSanitizer is not fit for fork(): a lock of it that another thread holds stays
  // locked in the child (LLVM 18 takes them all before)
  void SetUp() override {
#ifdef UNISONO_SANITIZED
    GTEST_SKIP() << "runs in the optimised build";
#endif
  }

  static NetworkExecutable build() {
    NetworkBuilder net;
    const std::vector<float> weights(std::size_t{8} * 8 * 3 * 3, 0.01f);
    auto h = net.input("x", {1, 8, 32, 32});
    for (int i = 0; i < 3; ++i)
      h = group_norm(conv2d(h, net.constant("w" + std::to_string(i), {8, 8, 3, 3}, weights), {.pad = 1}),
                     {.groups = 4});
    net.output(max_pool(h, {.kernel = 2, .stride = 2}), "y");
    return compile(net.build(), {.threads = threads});
  }
  std::vector<float> run() const {
    std::vector<float> y(std::size_t{8} * 16 * 16);
    network_.run({{"x", {pixels_.data(), DType::f32, {1, 8, 32, 32}, {}}}},
                 {{"y", {y.data(), DType::f32, {1, 8, 16, 16}, {}}}});
    return y;
  }
  bool is_right() const { return run() == expected_; }

  // Whether a child that does this ends by itself, with exit() and so with the destructors of statics
  static bool ends_well(const std::function<bool()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(patience_seconds);
      std::exit(work() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::vector<float> pixels_ = std::vector<float>(std::size_t{8} * 32 * 32);
  NetworkExecutable network_ = build();
  std::vector<float> expected_;
};

TEST_F(Fork, TheChildOfAProcessThatRanEnds) {
  EXPECT_TRUE(ends_well([] { return true; }));
  EXPECT_TRUE(is_right());
}

TEST_F(Fork, TheChildRunsWithThreadsOfItsOwn) {
  EXPECT_TRUE(ends_well([&] {
    std::atomic<int> workers{0};
    cpu::WorkerPool::shared().for_each(2, 2, [&](std::int64_t, int) {  // ends only with two threads
      ++workers;
      while (workers < 2) std::this_thread::yield();
    });
    return is_right() && build().report().kernels == network_.report().kernels;
  }));
  EXPECT_TRUE(is_right());
}

TEST_F(Fork, SoDoesItsOwnChild) {
  EXPECT_TRUE(ends_well([&] { return is_right() && ends_well([&] { return is_right(); }) && is_right(); }));
}

// Three of ten such children hung: what other threads held when the process forked was held for ever
TEST_F(Fork, BesideThreadsThatRunAndCompile) {
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&, i] {
      while (!over) {
        if (i == 0) build();
        EXPECT_TRUE(is_right());
      }
    });
  int well = 0;
  constexpr int children = 50;
  for (int i = 0; i < children; ++i) well += ends_well([&] { return i % 2 == 0 || is_right(); }) ? 1 : 0;
  over = true;
  for (std::thread& t : others) t.join();
  EXPECT_EQ(well, children);
}

// What the process has bounds the threads of a loop, not what is asked for
TEST(Threads, BeyondTheLimitAreAnError) {
  NetworkBuilder net;
  net.output(relu(net.input("x", {1, 4})), "y");
  const Network network = net.build();
  try {
    compile(network, {.threads = 4096});
    FAIL() << "4096 threads";
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()), "threads is 4096; expected 0 (one a core) to 256");
  }
}

// As where a limit on processes is reached: no thread gets the stack that it asks for
class StacksBeyondMemory {
 public:
  StacksBeyondMemory() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_getattr_default_np(&huge);
    ::pthread_attr_setstacksize(&huge, std::size_t{1} << 50);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  ~StacksBeyondMemory() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(Threads, FewerWhereTheSystemHasNoMore) {
  cpu::WorkerPool pool;
  std::atomic<int> done{0};
  testing::internal::CaptureStderr();
  {
    const StacksBeyondMemory none;
    EXPECT_THROW(std::thread([] {}), std::system_error);
    for (int i = 0; i < 3; ++i) pool.for_each(4, 100, [&](std::int64_t, int) { ++done; });
  }
  EXPECT_EQ(done, 300);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      Says("unisono: 1 of 4 threads … (Resource temporarily unavailable); … `ulimit -u`, `ulimit -v` … pids.max … \n"));
}

}  // namespace
}  // namespace unisono
