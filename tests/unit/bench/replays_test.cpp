#include "bench/replays.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/kernels.hpp"

namespace unisono::bench {
namespace {

// An engine's workspace belongs to its Enqueue: a graph that outlived it wrote to freed memory
TEST(Replays, KeepTheMemoryOfTheirExecutions) {
  auto memory = std::make_shared<gpu::Buffer>(4096);
  const std::weak_ptr<gpu::Buffer> alive = memory;
  std::vector<Enqueue> sets{[memory](CUstream stream) {
    gpu::launch("unisono_normal16", gpu::striding, stream, memory->address(), memory->bytes() / 2, 1.0F, 0.0F, 7ULL, 0);
  }};
  auto replays = replays_of(sets, "a fill", 1);
  sets.clear(), memory.reset();
  ASSERT_FALSE(alive.expired());
  alive.lock()->poison();
  gpu::wait(nullptr, "poisoning");
  replays->time();
  const auto bytes = alive.lock()->contents();
  EXPECT_LT(std::ranges::count(bytes, std::byte{0xff}), 64);
  replays.reset();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace unisono::bench
