#include "tuner/compile_queue.hpp"

#include <algorithm>
#include <chrono>

#include "support/threads.hpp"
#include "unisono/error.hpp"

namespace unisono::tuner {

CompileQueue::CompileQueue(jit::Jit& compiler, const std::vector<const jit::Request*>& requests, int threads)
    : compiler_(compiler), requests_(requests) {
  const std::size_t cores = std::max(2u, std::thread::hardware_concurrency());
  const std::size_t count = std::min(threads > 0 ? static_cast<std::size_t>(threads) : cores - 1, requests.size());
  const std::lock_guard lock(mutex_);  // nobody ends before all are counted
  support::start_up_to(threads_, count, [this] { work(); });
  working_ = static_cast<int>(threads_.size());
  if (threads_.empty() && count > 0)
    throw UserError("no thread for compilations could be started; raise `ulimit -u`, or the control group's pids.max");
}

CompileQueue::~CompileQueue() {
  stop();
  for (std::thread& t : threads_) t.join();
}

void CompileQueue::work() {
  while (true) {
    std::size_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || begun_ == requests_.size()) break;
      index = begun_++;
    }
    Done done{index, std::nullopt, nullptr};
    try {
      done.binary = compiler_.compile(*requests_[index]);
    } catch (...) {
      done.error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done_.push_back(std::move(done));
    ready_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  --working_;
  ready_.notify_all();
}

std::optional<CompileQueue::Done> CompileQueue::next(double seconds) {
  std::unique_lock lock(mutex_);
  ready_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !done_.empty() || working_ == 0; });
  if (done_.empty()) return std::nullopt;
  Done first = std::move(done_.front());
  done_.pop_front();
  return first;
}

bool CompileQueue::is_over() {
  const std::lock_guard lock(mutex_);
  return working_ == 0 && done_.empty();
}

}  // namespace unisono::tuner
