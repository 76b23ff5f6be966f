#include "command/interruption.hpp"

namespace unisono::command {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void request(int) { requested.store(true, std::memory_order_relaxed); }

}  // namespace

Interruption::Interruption() : cancellation_(requested) {
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the next one ends the process
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &interrupt_);
  ::sigaction(SIGTERM, &action, &terminate_);
  // what is ignored stays so, as under nohup
  if (interrupt_.sa_handler == SIG_IGN) ::sigaction(SIGINT, &interrupt_, nullptr);
  if (terminate_.sa_handler == SIG_IGN) ::sigaction(SIGTERM, &terminate_, nullptr);
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
}

}  // namespace unisono::command
