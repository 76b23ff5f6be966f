#pragma once
/// Memory for what other libraries make. Where they have none, oneDNN reads objects that it has not got, and OpenMP
/// ends the process. So there is room, or std::bad_alloc, ahead of what they make; and a run makes nothing.

#include <cstddef>

namespace unisono::cpu {

/// For a few objects of oneDNN's, and for a primitive with its code and descriptions.
constexpr std::size_t room_of_objects = std::size_t{1} << 20, room_of_a_primitive = std::size_t{16} << 20;

/// What a thread takes of the space of addresses: its stack, and the heap that the C library keeps for it.
constexpr std::size_t room_of_a_thread = std::size_t{80} << 20;

/// How many more threads, `wanted` at most, leave addresses for what the process still allocates.
int threads_with_room(int wanted);

/// Throws std::bad_alloc unless the process can have `bytes` more.
void require_room(std::size_t bytes);

/// The most threads that OpenMP gives this thread's loops. Makes the settings of this thread, at its first call, for
/// which OpenMP takes memory; throws std::bad_alloc.
int openmp_threads();

/// While one lives, each Callable that this thread makes is for runs of so many threads.
class CallsOfThreads {
 public:
  explicit CallsOfThreads(int threads);
  ~CallsOfThreads();
  CallsOfThreads(const CallsOfThreads&) = delete;
  CallsOfThreads& operator=(const CallsOfThreads&) = delete;

  static int threads();  ///< 1 where none lives

 private:
  int before_;
};

}  // namespace unisono::cpu
