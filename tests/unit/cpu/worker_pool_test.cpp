// Loops: every index once, distinct workers, exceptions, loops inside loops, several callers.

#include "runtime/cpu/worker_pool.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace unisono::cpu {
namespace {

TEST(WorkerPool, EveryIndexOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    for (const std::int64_t tasks : {0, 1, 2, 100, 3000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(tasks));
      WorkerPool::shared().for_each(threads, tasks, [&](std::int64_t i, int) { ++seen[static_cast<std::size_t>(i)]; });
      for (const auto& s : seen) ASSERT_EQ(s, 1) << threads << " threads, " << tasks << " tasks";
    }
  }
}

TEST(WorkerPool, WorkersAreDistinctAndBelowTheLimit) {
  constexpr int threads = 4;
  std::vector<std::atomic<int>> busy(threads);
  std::atomic<int> clashes{0};
  for (int repeat = 0; repeat < 50; ++repeat)
    WorkerPool::shared().for_each(threads, 64, [&](std::int64_t, int worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, threads);
      if (busy[static_cast<std::size_t>(worker)].exchange(1) != 0) ++clashes;
      std::this_thread::yield();
      busy[static_cast<std::size_t>(worker)] = 0;
    });
  EXPECT_EQ(clashes, 0);
}

// What one loop wrote, the thread that called it sees
TEST(WorkerPool, ResultsAreVisibleToTheCaller) {
  std::vector<int> x(1000);
  for (int round = 1; round <= 20; ++round) {
    WorkerPool::shared().for_each(3, 1000, [&](std::int64_t i, int) { x[static_cast<std::size_t>(i)] += round; });
    for (const int v : x) ASSERT_EQ(v, round * (round + 1) / 2);
  }
}

// The other tasks sleep: without that the other workers may run all of them while the throwing one is not scheduled
TEST(WorkerPool, FirstExceptionEndsTheLoop) {
  std::atomic<int> calls{0};
  try {
    WorkerPool::shared().for_each(3, 100000, [&](std::int64_t i, int) {
      ++calls;
      if (i == 7) throw std::runtime_error("task 7");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    FAIL() << "no exception came out";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()), "task 7");
  }
  EXPECT_LT(calls, 100000);
  std::atomic<int> later{0};
  WorkerPool::shared().for_each(3, 10, [&](std::int64_t, int) { ++later; });
  EXPECT_EQ(later, 10);
}

TEST(WorkerPool, LoopsInsideLoopsFromSeveralThreads) {
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 10; ++repeat)
        WorkerPool::shared().for_each(
            3, 6, [&](std::int64_t, int) { WorkerPool::shared().for_each(2, 5, [&](std::int64_t, int) { ++sum; }); });
    });
  for (auto& t : callers) t.join();
  EXPECT_EQ(sum, 4 * 10 * 6 * 5);
}

TEST(WorkerPool, APoolThatNeverRanEnds) {
  WorkerPool pool;
  std::atomic<int> calls{0};
  WorkerPool busy;
  busy.for_each(5, 20, [&](std::int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 20);
}

}  // namespace
}  // namespace unisono::cpu
