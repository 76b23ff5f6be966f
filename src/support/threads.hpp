#pragma once
/// Threads on a system that may refuse them.

#include <cstddef>
#include <system_error>
#include <vector>

namespace unisono::support {

/// Starts threads with `body` until there are `count` in the list; fewer where the system has no more (`ulimit -u`, the
/// control group's pids.max). Those that were started go on.
template <class Thread, class Body>
void start_up_to(std::vector<Thread>& threads, std::size_t count, const Body& body) {
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back(body);
  } catch (const std::system_error&) {  // the ones that are there do all the work
  }
}

}  // namespace unisono::support
