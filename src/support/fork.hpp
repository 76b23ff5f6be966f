#pragma once
/// fork() in a process that has threads: the child has only the one that called it, and whatever the others held at
/// that moment stays as it was, locked mutexes included.

#include <cstdint>

namespace unisono::support {

/// While one lives, fork() in another thread waits: work that takes locks of others (oneDNN's, an allocator's arena)
/// is then never cut in two. May be nested. A thread that forks while it has one itself does not wait for itself.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// For a thread that works for one with a NoFork: what it does counts as that one's. A NoFork within would otherwise
/// wait for a fork() that waits for the other.
class WithinNoFork {
 public:
  WithinNoFork();
  ~WithinNoFork();
  WithinNoFork(const WithinNoFork&) = delete;
  WithinNoFork& operator=(const WithinNoFork&) = delete;
};

/// How often this process is the child of a fork() since its program began: what was made under another number belongs
/// to threads that are not here.
std::uint64_t fork_generation();

}  // namespace unisono::support
