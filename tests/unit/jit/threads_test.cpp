// Several threads, several requests, and somebody else at the same kernel.
#include <latch>
#include <thread>

#include "fixture.hpp"
#include "jit/in_flight.hpp"
#include "jit/key.hpp"
#include "jit/lock.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

using ThreadsTest = JitTest;

/// The results of eight threads that ask for the same at once.
std::vector<Binary> ask_at_once(const std::function<Binary()>& ask) {
  std::vector<Binary> results(8);
  std::latch start(8);
  {
    std::vector<std::jthread> threads;
    for (Binary& result : results) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        result = ask();
      });
    }
  }
  return results;
}

TEST_F(ThreadsTest, SameRequestIsCompiledOnce) {
  compiler->duration = 20ms;
  Jit jit(settings(), compiler);
  for (const Binary& b : ask_at_once([&] { return jit.compile(request()); })) EXPECT_EQ(b.cubin, expected(request()));
  EXPECT_EQ(compiler->count, 1);
}

TEST_F(ThreadsTest, SameRequestIsCompiledOnceByThreadsWithACompilerEach) {
  compiler->duration = 20ms;
  for (const Binary& b : ask_at_once([&] { return jit().compile(request()); })) EXPECT_EQ(b.cubin, expected(request()));
  EXPECT_EQ(compiler->count, 1);
}

TEST_F(ThreadsTest, SameRequestIsCompiledOnceWithoutCache) {
  compiler->duration = 200ms;
  Settings s = settings();
  s.use_cache = false;
  Jit jit(s, compiler);
  ask_at_once([&] { return jit.compile(request()); });
  EXPECT_EQ(compiler->count, 1);
}

TEST_F(ThreadsTest, ResultIsNotMissedBetweenTwoTries) {
  InFlight in_flight;
  std::shared_ptr<InFlight::Work> pending, none;
  auto leader = in_flight.join("key", 0, none).leader;
  ASSERT_TRUE(leader);
  EXPECT_EQ(in_flight.join("key", 0, pending).ready, nullptr);
  leader->done(std::make_shared<Ready>());
  const auto second = in_flight.join("key", 0, pending);
  EXPECT_FALSE(second.leader);
  EXPECT_NE(second.ready, nullptr);
  EXPECT_TRUE(in_flight.join("key", 0, pending).leader);  // and a new request is new work
}

TEST_F(ThreadsTest, WorkThatWasGivenUpIsTakenOver) {
  InFlight in_flight;
  std::shared_ptr<InFlight::Work> pending, none;
  {
    const auto leader = in_flight.join("key", 0, none);
    EXPECT_FALSE(in_flight.join("key", 0, pending).leader);
  }
  EXPECT_FALSE(in_flight.join("key", 0, pending).leader);
  EXPECT_TRUE(in_flight.join("key", 0, pending).leader);
}

TEST_F(ThreadsTest, FailureReachesAllThatWait) {
  compiler->duration = 50ms;
  Settings s = settings();
  s.use_cache = false;
  Jit jit(s, compiler);
  std::atomic<int> failures = 0;
  ask_at_once([&] {
    EXPECT_THROW(jit.compile(request("broken")), CompileError);
    ++failures;
    return Binary{};
  });
  EXPECT_EQ(failures, 8);
}

TEST_F(ThreadsTest, BatchIsCompiledInParallelWithProgress) {
  compiler->duration = 20ms;
  Settings s = settings();
  s.jobs = 4;
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) requests.push_back(request("kernel k " + std::to_string(i)));
  std::vector<std::size_t> reported;
  const auto results =
      Jit(s, compiler).compile(requests, [&](std::size_t done, std::size_t total, const std::string& title) {
        EXPECT_EQ(total, 12u);
        EXPECT_EQ(title, "title");
        reported.push_back(done);
      });
  for (int i = 0; i < 12; ++i) EXPECT_EQ(results[i].cubin, expected(requests[i]));
  EXPECT_EQ(reported, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(compiler->count, 12);
  EXPECT_GE(compiler->most, 2);
  EXPECT_LE(compiler->most, 4);
}

TEST_F(ThreadsTest, JobsBoundWhatAllThreadsDoTogether) {
  compiler->duration = 10ms;
  Settings s = settings();
  s.jobs = 2;
  Jit jit(s, compiler);
  std::atomic<int> next = 0;
  ask_at_once([&] { return jit.compile(request("kernel k " + std::to_string(next++))); });
  EXPECT_EQ(compiler->count, 8);
  EXPECT_EQ(compiler->most, 2);
}

TEST_F(ThreadsTest, EqualRequestsOfABatchAreCompiledOnce) {
  for (const bool use_cache : {true, false}) {
    compiler->count = 0;
    Settings s = settings();
    s.use_cache = use_cache;
    std::vector<Request> requests(6, request("kernel k kernel other"));
    requests[3].entry = "other";
    std::size_t reported = 0;
    const auto results =
        Jit(s, compiler).compile(requests, [&](std::size_t done, std::size_t, auto&) { reported = done; });
    EXPECT_EQ(compiler->count, 1);
    EXPECT_EQ(reported, 6u);
    EXPECT_EQ(results[0].resources.registers, 1);
    EXPECT_EQ(results[3].resources.registers, 5);
  }
}

TEST_F(ThreadsTest, EmptyBatch) { EXPECT_TRUE(jit().compile(std::span<const Request>{}).empty()); }

TEST_F(ThreadsTest, ErrorOfTheProgressFunctionIsThrown) {
  const std::vector<Request> requests{request("kernel k 1"), request("kernel k 2")};
  EXPECT_THROW(jit().compile(requests, [](auto, auto, auto&) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_EQ(compiler->count, 2);
}

/// The lock that another process would hold.
std::unique_ptr<support::FileLock> hold(Compiler& compiler, const Request& r) {
  auto lock = lock_of(binary_key(program_key(r), compiler, r));
  EXPECT_TRUE(lock->try_lock(0));
  return lock;
}

TEST_F(ThreadsTest, StoppedProcessIsNotWaitedForForEver) {
  const auto lock = hold(*compiler, request());
  Settings s = settings();
  s.lock_seconds = 0.05;
  EXPECT_EQ(Jit(s, compiler).compile(request()).cubin, expected(request()));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("another process"));
  warnings.clear();
  const std::vector<Request> other{request("kernel k other")};
  const auto second = hold(*compiler, other[0]);
  EXPECT_EQ(Jit(s, compiler).compile(other)[0].cubin, expected(other[0]));
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(ThreadsTest, BatchGoesOnWithOtherKernelsWhileAnotherProcessIsAtTheFirst) {
  const std::vector<Request> requests{request("kernel k 1"), request("kernel k 2"), request("kernel k 3")};
  auto lock = hold(*compiler, requests[0]);
  Settings s = settings();
  s.jobs = 1;
  std::vector<std::string> order;
  compiler->on_compile = [&](const Request& r) {
    order.push_back(r.source);
    if (order.size() == 2) lock.reset();  // the other process ends
  };
  Jit(s, compiler).compile(requests);
  EXPECT_EQ(order, (std::vector<std::string>{"kernel k 2", "kernel k 3", "kernel k 1"}));
}

}  // namespace
}  // namespace unisono::jit
