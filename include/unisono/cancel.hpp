#pragma once
/// Cancels runs of networks.

#include <atomic>

#include "unisono/error.hpp"

namespace unisono {

/// A run was cancelled. Its outputs are partly written; the network can be run again.
class Cancelled : public Error {
 public:
  using Error::Error;
};

/// While it exists, runs that this thread starts end with Cancelled once `requested` is true: on the CPU between two
/// strips of output rows, on a GPU before the first launch and at host steps. Enqueued work is finished. Cancellations
/// may be nested; each of them ends runs. Another thread or a signal handler may set the flag.
class Cancellation {
 public:
  explicit Cancellation(const std::atomic<bool>& requested);
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

 private:
  friend void check_cancelled();
  const std::atomic<bool>& requested_;
  const Cancellation* outer_;
};

/// Throws Cancelled if a run of this thread is to end. For long functions of the caller, such as those of a graph.
void check_cancelled();

}  // namespace unisono
