#pragma once
/// Threads that run the tasks of parallel loops.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "support/function_ref.hpp"

namespace unisono::cpu {

/// A pool of helper threads, shared by all executables of a process.
///
/// The thread that calls for_each works too, and it alone can finish the loop: helpers only join in. So several threads
/// may run loops at once, and a task may run a loop itself, without a deadlock.
class WorkerPool {
 public:
  WorkerPool() = default;
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The pool of the process. Helpers are started when a loop first asks for them; where the system refuses to start
  /// so many, loops have fewer, and a line on stderr says so. After fork() the child has a pool of its own.
  static WorkerPool& shared();

  /// Starts the helpers of loops with so many threads, so that no loop has to.
  void start(int threads);
  /// Whether some loop is under way.
  bool busy();
  /// Ends the helpers. Loops go on without.
  void stop();

  /// Most threads that one loop can have.
  static constexpr int most_threads = 256;

  /// task(index, worker) for each index in [0, tasks); `worker` < threads is unique among the threads that run this
  /// loop at a time. Worker w begins with the w-th part of the indices, so that consecutive loops
  /// find in its caches what it wrote; who is done helps others. Returns when all are done; an exception of a task, or
  /// Cancelled ahead of one (unisono/cancel.hpp), ends the loop early and comes out here: the first, if several do.
  void for_each(int threads, std::int64_t tasks, support::FunctionRef<void(std::int64_t, int)> task);

  /// While one lives, loops follow one another, with work in between that one thread does alone: helpers stay awake for
  /// longer.
  class Series {
   public:
    explicit Series(WorkerPool& pool) : pool_(pool) { pool_.series_.fetch_add(1, std::memory_order_relaxed); }
    ~Series() { pool_.series_.fetch_sub(1, std::memory_order_relaxed); }
    Series(const Series&) = delete;
    Series& operator=(const Series&) = delete;

   private:
    WorkerPool& pool_;
  };

 private:
  struct Loop;
  void help();
  void start_helpers(int count);
  Loop* join_loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Loop*> open_;               // loops that helpers may join
  std::atomic<std::uint64_t> posted_{0};  // loops so far; changes under the mutex, looked at without it
  std::atomic<int> series_{0};
  bool stop_ = false;
  bool said_fewer_ = false;
  std::chrono::steady_clock::time_point next_start_{};  // no helper could be started: not again before
  std::vector<std::thread> helpers_;
};

/// Cores that this process may run on; at least 1.
int available_cores();

}  // namespace unisono::cpu
