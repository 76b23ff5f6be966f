#pragma once
/// Compilations in threads of their own, the first ones asked for first, until all are done or they are stopped.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "jit/jit.hpp"

namespace unisono::tuner {

class CompileQueue {
 public:
  struct Done {
    std::size_t index = 0;  ///< which request
    std::optional<jit::Binary> binary;
    std::exception_ptr error;
  };

  /// `requests` must outlive the queue. `threads` 0: one a core but for the one that asks.
  CompileQueue(jit::Jit& compiler, const std::vector<const jit::Request*>& requests, int threads);
  /// Waits for what is being compiled.
  ~CompileQueue();
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;

  /// The next one that is ready, in the order of their ends; nothing after `seconds`, or when there will be no more.
  std::optional<Done> next(double seconds);
  /// Nothing new is begun.
  void stop() { stopped_ = true; }
  /// Nothing is being compiled, and next() has given everything.
  bool is_over();

 private:
  void work();
  jit::Jit& compiler_;
  const std::vector<const jit::Request*>& requests_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::size_t begun_ = 0;
  int working_ = 0;
  std::deque<Done> done_;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace unisono::tuner
