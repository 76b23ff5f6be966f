#include "runtime/cpu/worker_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <span>
#include <string>
#include <system_error>

#include "runtime/cpu/room.hpp"
#include "support/cancellation.hpp"
#include "support/fork.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace unisono::cpu {

namespace {

// A helper looks for work this long before it sleeps: the loops of one run follow one another within microseconds,
// while waking a sleeping thread takes up to 50 µs.
constexpr auto patience = std::chrono::microseconds(60);
// In a series it waits for as long as an operator that one thread computes may take
constexpr auto patience_in_series = std::chrono::milliseconds(2);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// True as soon as condition() holds, false if it did not within `limit`
template <class Condition>
bool spin(Condition condition, std::chrono::microseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return condition();
}

}  // namespace

int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct WorkerPool::Loop {
  // Tasks that one worker takes before it helps others with theirs
  struct alignas(64) Part {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  Loop(support::FunctionRef<void(std::int64_t, int)> t, std::int64_t count, int most)
      : task(t), threads(most), parts(reinterpret_cast<Part*>(memory), static_cast<std::size_t>(most)) {
    for (int p = 0; p < most; ++p) {
      Part& part = *new (&parts[static_cast<std::size_t>(p)]) Part;
      part.next.store(p * count / most, std::memory_order_relaxed);
      part.end = (p + 1) * count / most;
    }
  }

  const support::FunctionRef<void(std::int64_t, int)> task;
  const int threads;
  const Cancellation* const cancellation = support::current_cancellation();  // the caller's
  alignas(Part) std::byte memory[most_threads * sizeof(Part)];               // of which the parts take some
  const std::span<Part> parts;                                               // by worker
  int joined = 1;              // workers so far, the caller included; guarded by the pool's mutex
  std::atomic<int> inside{0};  // helpers that work on the loop
  std::mutex mutex;            // guards what follows
  std::condition_variable left;
  std::exception_ptr error;

  bool tasks_left() const {
    return std::any_of(parts.begin(), parts.end(),
                       [](const Part& p) { return p.next.load(std::memory_order_relaxed) < p.end; });
  }

  // Takes tasks until none is left
  void work(int worker) {
    for (int p = 0; p < threads; ++p) {
      Part& part = parts[static_cast<std::size_t>((worker + p) % threads)];
      for (std::int64_t i = part.next.fetch_add(1, std::memory_order_relaxed); i < part.end;
           i = part.next.fetch_add(1, std::memory_order_relaxed))
        run(i, worker);
    }
  }

  void run(std::int64_t i, int worker) {
    try {
      check_cancelled();
      task(i, worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      for (Part& p : parts) p.next.store(p.end, std::memory_order_relaxed);
    }
  }
};

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& t : helpers_) t.join();
  helpers_.clear();
}

namespace {

// The pool of this process. That of a parent is left as it is: its threads are not here, its mutex may be locked by one
// of them, and its destructor would wait for them.
class Shared {
 public:
  ~Shared() {
    WorkerPool* const pool = pool_.load();
    if (generation_ != support::fork_generation() || pool == nullptr) return;
    // Loops that other threads still run at the end of the program, and the helpers in them, end with the process
    if (!pool->busy()) pool->stop();
  }

  WorkerPool& pool() {
    const std::uint64_t now = support::fork_generation();
    if (generation_.load(std::memory_order_acquire) != now) renew(now);
    return *pool_.load(std::memory_order_acquire);
  }

 private:
  void renew(std::uint64_t now) {
    const support::NoFork no_fork;  // so the child's mutex is never locked by a thread that is not there
    const std::lock_guard lock(mutex_);
    if (generation_.load(std::memory_order_relaxed) == now) return;
    pool_.store(new WorkerPool, std::memory_order_release);
    generation_.store(now, std::memory_order_release);
  }

  std::mutex mutex_;
  std::atomic<WorkerPool*> pool_{nullptr};
  std::atomic<std::uint64_t> generation_{static_cast<std::uint64_t>(-1)};
};

}  // namespace

WorkerPool& WorkerPool::shared() {
  static Shared the_shared;
  return the_shared.pool();
}

bool WorkerPool::busy() {
  const std::lock_guard lock(mutex_);
  return !open_.empty();
}

// Fewer if the system has no more: a loop needs none of them to end
void WorkerPool::start_helpers(int count) {
  const std::lock_guard lock(mutex_);
  if (std::ssize(helpers_) >= count || std::chrono::steady_clock::now() < next_start_) return;
  const int have = static_cast<int>(helpers_.size()), more = threads_with_room(count - have);
  std::string why = "no memory";
  try {
    helpers_.reserve(static_cast<std::size_t>(count));
    while (std::ssize(helpers_) < have + more) helpers_.emplace_back([this] { help(); });
  } catch (const std::system_error& error) {
    why = error.code().message();
  }
  if (std::ssize(helpers_) == count) return;
  next_start_ = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  if (!said_fewer_)
    fmt::print(stderr,
               "unisono: {} of {} threads could be started ({}); runs go on with those. `ulimit -u`, `ulimit -v` and "
               "the control group's pids.max limit them\n",
               helpers_.size() + 1, count + 1, why);
  said_fewer_ = true;
}

// The first loop that still wants a helper; the caller holds the mutex
WorkerPool::Loop* WorkerPool::join_loop() {
  for (Loop* loop : open_) {
    if (loop->joined >= loop->threads || !loop->tasks_left()) continue;
    loop->inside.fetch_add(1, std::memory_order_relaxed);
    return loop;
  }
  return nullptr;
}

void WorkerPool::start(int threads) {
  if (threads > 1) start_helpers(std::min(threads, most_threads) - 1);
}

void WorkerPool::help() {
  try {
    openmp_threads();
  } catch (const std::bad_alloc&) {
    return;  // it has no memory for oneDNN: a loop needs no helper to end
  }
  const bool may_spin = available_cores() > 1;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto seen = posted_.load(std::memory_order_relaxed);
    Loop* loop = join_loop();
    const int worker = loop ? loop->joined++ : 0;
    lock.unlock();
    if (loop) {
      {
        const support::WithinNoFork within;  // the caller's, if it has one
        const support::WithinCancellation as_caller(loop->cancellation);
        loop->work(worker);
      }
      // the caller may destroy the loop as soon as `inside` is 0 and this mutex is free
      const std::lock_guard leaving(loop->mutex);
      loop->inside.fetch_sub(1, std::memory_order_release);
      loop->left.notify_one();
    } else if (may_spin) {
      const auto posted = [&] { return posted_.load(std::memory_order_relaxed) != seen; };
      const auto end = std::chrono::steady_clock::now() + patience_in_series;
      while (!spin(posted, patience) && series_.load(std::memory_order_relaxed) > 0 &&
             std::chrono::steady_clock::now() < end) {
      }
    }
    lock.lock();
    if (!loop) wake_.wait(lock, [&] { return stop_ || posted_.load(std::memory_order_relaxed) != seen; });
  }
}

void WorkerPool::for_each(int threads, std::int64_t tasks, support::FunctionRef<void(std::int64_t, int)> task) {
  threads = static_cast<int>(std::clamp<std::int64_t>(std::min<std::int64_t>(threads, tasks), 1, most_threads));
  if (threads == 1) {
    for (std::int64_t i = 0; i < tasks; ++i) {
      check_cancelled();
      task(i, 0);
    }
    return;
  }
  start_helpers(threads - 1);
  Loop loop(task, tasks, threads);
  {
    const std::lock_guard lock(mutex_);
    open_.push_back(&loop);
    posted_.fetch_add(1, std::memory_order_relaxed);
  }
  wake_.notify_all();
  loop.work(0);
  {
    const std::lock_guard lock(mutex_);
    open_.erase(std::find(open_.begin(), open_.end(), &loop));
  }
  const auto alone = [&] { return loop.inside.load(std::memory_order_acquire) == 0; };
  spin(alone, series_.load(std::memory_order_relaxed) > 0 ? patience_in_series : patience);
  std::unique_lock lock(loop.mutex);  // taken even if alone: the last helper may still hold it
  loop.left.wait(lock, alone);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace unisono::cpu
