#pragma once
/// Ending runs of networks early.

#include <atomic>

#include "unisono/error.hpp"

namespace unisono {

/// A run ended early because its caller asked for it. Its outputs hold whatever had been written; the network can be
/// run again.
class Cancelled : public Error {
 public:
  using Error::Error;
};

/// While one lives, runs that this thread begins end with Cancelled once `requested` is true: on the CPU between two
/// strips of output rows, on a GPU before they begin and at what the host computes between launches. What a GPU has
/// been given it finishes. Several may be nested; each of them ends runs. The flag may be set by another thread or by a
/// signal handler, and is only read here.
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

/// Throws Cancelled if a run of this thread is to end: for functions of the caller that take long, such as those of a
/// graph.
void check_cancelled();

}  // namespace unisono
