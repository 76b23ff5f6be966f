#include "command/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <system_error>

#include "support/printable.hpp"

namespace unisono::command {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {  // no thread to be had: nothing is shown
  }
}

Progress::~Progress() { finish(); }

void Progress::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (terminal_ && shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::step(std::string what) {
  {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
    part_.clear();
    ++steps_;
  }
  wake_.notify_all();
}

void Progress::part(std::string text) {
  const std::lock_guard lock(mutex_);
  part_ = std::move(text);
}

void Progress::done(std::size_t part, std::size_t whole) {
  const std::lock_guard lock(mutex_);
  part_ = fmt::format(" ({} of {})", part, whole);
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  unsigned seen = 0;
  Clock::time_point started = Clock::now(), next = started + std::chrono::seconds(1);
  while (!ending_) {
    if (steps_ != seen) {  // a new step
      seen = steps_;
      started = Clock::now();
      // on a terminal the line goes on with the new step; elsewhere only long steps are worth one
      next = terminal_ && shown_ ? started : started + std::chrono::seconds(1);
    }
    if (Clock::now() >= next && !what_.empty()) {
      show(std::chrono::duration<double>(Clock::now() - started).count());
      next = Clock::now() + (terminal_ ? std::chrono::milliseconds(500) : std::chrono::seconds(10));
    }
    wake_.wait_until(lock, std::max(next, Clock::now() + std::chrono::milliseconds(1)),
                     [&] { return ending_ || steps_ != seen; });
  }
}

void Progress::show(double seconds) {
  shown_ = true;
  const std::string what = support::printable_name(what_), part = support::printable_name(part_);
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}{}, {:.0f} s", what, part, seconds);
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "unisono: {}{}, {:.0f} s so far\n", what, part, seconds);
  }
}

}  // namespace unisono::command
