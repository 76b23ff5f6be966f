#include "runtime/cpu/room.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <new>
#include <utility>

namespace unisono::cpu {
namespace {

thread_local int threads_of_calls = 1;

}  // namespace

int threads_with_room(int wanted) {
  for (; wanted > 0; --wanted) {
    const std::size_t bytes = static_cast<std::size_t>(wanted) * room_of_a_thread + room_of_a_primitive;
    void* const room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) continue;
    ::munmap(room, bytes);
    break;
  }
  return wanted;
}

void require_room(std::size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, bytes);
}

int openmp_threads() {
  thread_local bool has_settings = false;
  const int threads = omp_get_max_threads();
  if (has_settings) return threads;
  require_room(room_of_objects);
  omp_set_num_threads(threads);
  has_settings = true;
  return threads;
}

CallsOfThreads::CallsOfThreads(int threads) : before_(std::exchange(threads_of_calls, threads)) {}
CallsOfThreads::~CallsOfThreads() { threads_of_calls = before_; }
int CallsOfThreads::threads() { return threads_of_calls; }

}  // namespace unisono::cpu
