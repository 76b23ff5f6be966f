#pragma once
/// What ends the runs of a thread, for the threads that work for it.

#include "unisono/cancel.hpp"

namespace unisono::support {

/// The innermost Cancellation of this thread; null if there is none.
const Cancellation* current_cancellation();

/// While one lives, check_cancelled() asks on this thread what it asks on the one whose current_cancellation() was
/// given, and which waits for this one.
class WithinCancellation {
 public:
  explicit WithinCancellation(const Cancellation* of_caller);
  ~WithinCancellation();
  WithinCancellation(const WithinCancellation&) = delete;
  WithinCancellation& operator=(const WithinCancellation&) = delete;

 private:
  const Cancellation* own_;
};

}  // namespace unisono::support
