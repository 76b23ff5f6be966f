#include "support/fork.hpp"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>

// This belongs to the OpenMP runtime, if the program has one
extern "C" [[gnu::weak]] int omp_get_max_threads();

namespace unisono::support {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;   // threads with a NoFork
  int forking = 0;  // threads that wait to fork: no others come in
};

thread_local int own = 0;  // NoForks of this thread
std::atomic<std::uint64_t> generation{0};

// Never destroyed: threads may outlive the statics, and in a child a condition variable still counts threads that are
// not there, for which its destructor would wait
union Storage {
  Storage() : gate() {}
  ~Storage() {}
  Gate gate;
};

Storage& storage() {
  static Storage the_storage;
  return the_storage;
}

Gate& gate() { return storage().gate; }

void before_fork() {
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  ++g.forking;
  g.changed.wait(lock, [&] { return g.inside == (own > 0 ? 1 : 0); });
  lock.release();  // held until after_fork_*
}

void after_fork_here() {
  Gate& g = gate();
  --g.forking;
  g.mutex.unlock();
  g.changed.notify_all();
}

void after_fork_in_child() {
  new (&gate()) Gate;
  gate().inside = own > 0 ? 1 : 0;
  generation.fetch_add(1, std::memory_order_relaxed);
}

// Handlers that run ahead of fork() do so in the reverse order of their registration. LLVM's OpenMP registers one when
// it starts, which takes locks that the runs need for which before_fork() waits: so it has to start, and register,
// first.
int register_handlers() {
  if (omp_get_max_threads != nullptr) omp_get_max_threads();
  return ::pthread_atfork(before_fork, after_fork_here, after_fork_in_child);
}

void watch_forks() {
  static const int once = register_handlers();
  (void)once;
}

}  // namespace

NoFork::NoFork() {
  if (own++ > 0) return;
  watch_forks();
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  g.changed.wait(lock, [&] { return g.forking == 0; });
  ++g.inside;
}

NoFork::~NoFork() {
  if (--own > 0) return;
  Gate& g = gate();
  bool waited_for = false;
  {
    const std::lock_guard lock(g.mutex);
    --g.inside;
    waited_for = g.forking > 0;
  }
  if (waited_for) g.changed.notify_all();
}

WithinNoFork::WithinNoFork() { ++own; }
WithinNoFork::~WithinNoFork() { --own; }

std::uint64_t fork_generation() {
  watch_forks();
  return generation.load(std::memory_order_relaxed);
}

}  // namespace unisono::support
