#include <utility>

#include "support/cancellation.hpp"

namespace unisono {
namespace {

thread_local const Cancellation* innermost = nullptr;

}  // namespace

Cancellation::Cancellation(const std::atomic<bool>& requested) : requested_(requested), outer_(innermost) {
  innermost = this;
}

Cancellation::~Cancellation() { innermost = outer_; }

void check_cancelled() {
  for (const Cancellation* c = innermost; c != nullptr; c = c->outer_)
    if (c->requested_.load(std::memory_order_relaxed)) throw Cancelled("the run was cancelled by its caller");
}

namespace support {

const Cancellation* current_cancellation() { return innermost; }

WithinCancellation::WithinCancellation(const Cancellation* of_caller) : own_(std::exchange(innermost, of_caller)) {}

WithinCancellation::~WithinCancellation() { innermost = own_; }

}  // namespace support
}  // namespace unisono
