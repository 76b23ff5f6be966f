// Runs that end early, and what is then left.

#include "unisono/cancel.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace unisono
