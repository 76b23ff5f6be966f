#pragma once
/// Ctrl-C while a network runs.

#include <atomic>
#include <csignal>

#include "unisono/cancel.hpp"

namespace unisono::command {

/// While one lives, the first SIGINT or SIGTERM ends runs of networks between two steps, by Cancelled, so that what has
/// been begun is put in order; the second one ends the process, as the first does at any other time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
  Cancellation cancellation_;
};

}  // namespace unisono::command
