// Runs that end early, and what is then left.

#include "unisono/cancel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "unisono/network.hpp"

namespace unisono {
namespace {

class Cancel : public testing::Test {
 protected:
  static NetworkExecutable build() {
    NetworkBuilder net;
    auto h = net.input("x", {1, 8, 32, 32});
    for (int i = 0; i < 40; ++i) h = max_pool(h, {.kernel = 3, .stride = 1, .pad = 1});
    net.output(h, "y");
    return compile(net.build(), {.threads = 2});
  }
  void run() {
    network_.run({{"x", {x_.data(), DType::f32, {1, 8, 32, 32}, {}}}},
                 {{"y", {y_.data(), DType::f32, {1, 8, 32, 32}, {}}}});
  }
  bool is_right() const { return y_ == std::vector<float>(y_.size(), 2.0f); }

  NetworkExecutable network_ = build();
  std::vector<float> x_ = std::vector<float>(std::size_t{8} * 32 * 32, 2.0f), y_ = std::vector<float>(x_.size(), -1);
};

TEST_F(Cancel, NothingRunsOnceItIsRequested) {
  std::atomic<bool> requested{true};
  {
    const Cancellation cancellation(requested);
    EXPECT_THROW(run(), Cancelled);
    EXPECT_EQ(y_, std::vector<float>(y_.size(), -1));
    requested = false;
    run();
    EXPECT_TRUE(is_right());
    const std::atomic<bool> never{false};
    const Cancellation inner(never);
    requested = true;
    EXPECT_THROW(run(), Cancelled) << "the outer one, too";
  }
  run();  // of no concern to runs after it
}

// Another thread asks in the middle of things; whatever step that is, the next run is whole
TEST_F(Cancel, BetweenTheSteps) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> requested{false};
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
      requested = true;
    });
    bool ended = false;
    try {
      const Cancellation cancellation(requested);
      for (;;) run();
    } catch (const Cancelled&) {
      ended = true;
    }
    other.join();
    EXPECT_TRUE(ended);
    std::fill(y_.begin(), y_.end(), -1.0f);
    run();
    ASSERT_TRUE(is_right()) << round;
  }
}

// A network of one step, which takes some 20 ms: it ends within the step, with some of its output written
class CancelOneStep : public testing::TestWithParam<int> {
 protected:
  static constexpr std::int64_t side = 64;
  static const std::vector<std::int64_t>& shape() {
    static const std::vector<std::int64_t> s{1, side, side, 16};  // channels last
    return s;
  }

  void ends_within(const NetworkExecutable& network) {
    const std::vector<float> x(static_cast<std::size_t>(element_count(shape())), 2.0f);
    std::vector<float> y(x.size(), -1);
    const auto run = [&] {
      network.run({{"x", {x.data(), DType::f32, shape(), {}}}}, {{"y", {y.data(), DType::f32, shape(), {}}}});
    };
    run();
    const std::vector<float> right = y;
    int within = 0;
    for (int round = 0; round < 200 && within < 3; ++round) {
      std::atomic<bool> requested{false};
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(1000 * (round % 10) + 300));
        requested = true;
      });
      const Cancellation cancellation(requested);
      try {
        for (;;) {
          std::fill(y.begin(), y.end(), -1.0f);
          run();
        }
      } catch (const Cancelled&) {
        const auto untouched = std::count(y.begin(), y.end(), -1.0f);
        within += untouched > 0 && untouched < std::ssize(y) ? 1 : 0;
      }
      other.join();
    }
    EXPECT_EQ(within, 3) << "runs that ended in the middle of their only step";
    const std::atomic<bool> never{false};
    const Cancellation cancellation(never);  // the same pieces, all of them
    run();
    EXPECT_EQ(y, right);
  }
};

TEST_P(CancelOneStep, BetweenTheStripsOfAContraction) {
  NetworkBuilder net;
  const std::vector<float> filter(16 * 16 * 25 * 25, 0.001f);
  net.output(conv2d(net.input("x", {1, 16, side, side}), net.constant("w", {16, 16, 25, 25}, filter), {.pad = 12}),
             "y");
  ends_within(compile(net.build(), {.threads = GetParam(), .layout = Layout::nhwc}));
}

TEST_P(CancelOneStep, WithinTheRowsOfAnOperator) {
  NetworkBuilder net;
  const operators::Pool2d pool{.average = false, .kernel = {63, 63}, .stride = {1, 1}, .pad = {31, 31, 31, 31}};
  net.output(net.apply(pool, {net.input("x", {1, 16, side, side})}), "y");
  ends_within(compile(net.build(), {.threads = GetParam(), .layout = Layout::nhwc}));
}

INSTANTIATE_TEST_SUITE_P(Threads, CancelOneStep, testing::Values(1, 2));

}  // namespace
}  // namespace unisono
