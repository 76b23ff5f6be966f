#include "faults.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "support/own_text.hpp"

namespace unisono::faults {
namespace {

struct Calls {
  std::atomic<bool> counted{false};
  std::atomic<long> seen{0}, fails{-1};
  std::atomic<const char*> failed{nullptr};
};
struct Counts {
  std::array<Calls, 7> kinds;
  std::atomic<pid_t> process{0};  // that of the last Counting
};

// Memory that processes which are forked share
Counts& counts() {
  static Counts* const shared = [] {
    void* const memory = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return new (memory) Counts;
  }();
  return *shared;
}
std::atomic<long> blocks{0};
std::atomic<bool> passed{false};

Calls& of(Kind kind) { return counts().kinds[static_cast<std::size_t>(kind)]; }

// Code of other libraries within this program. JSON's values take memory while they are destroyed; the messages of ONNX
// are read by protobuf's code, some of which its compiler writes; libstdc++ ends the process where memory for the next
// name of a folder fails.
bool is_foreign(const char* function) {
  for (const char* space : {"nlohmann", "6google8protobuf", "N4onnx", "directory_iterator", "4_Dir7advance"})
    if (std::strstr(function, space) != nullptr) return true;
  return false;
}

bool is_of_the_standard_library(const char* function) {
  for (const char* space : {"_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"})
    if (std::strncmp(function, space, std::strlen(space)) == 0) return true;
  return false;
}

// The frames from the one that allocates on. Templates of the standard library that this program has are called by
// libstdc++.so, too, some of which does not survive a failure: whose allocation it is, the first other frame tells.
struct Frames {
  const void* caller;
  bool begun = false, foreign = false;
};
_Unwind_Reason_Code judge(_Unwind_Context* context, void* to) {
  Frames& frames = *static_cast<Frames*>(to);
  const auto* const at = reinterpret_cast<const void*>(_Unwind_GetIP(context));
  frames.begun = frames.begun || at == frames.caller;
  if (!frames.begun) return _URC_NO_REASON;
  Dl_info info{};
  const bool named = ::dladdr(at, &info) != 0 && info.dli_sname != nullptr;
  frames.foreign = !test::is_own_code(at) || (named && is_foreign(info.dli_sname));
  const bool undecided = !frames.foreign && named && is_of_the_standard_library(info.dli_sname);
  return undecided ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool is_of_another_library(const void* caller) {
  Frames frames{caller};
  ::_Unwind_Backtrace(judge, &frames);
  return frames.foreign;
}

// Whether this allocation is the one that fails
bool is_refused(const void* caller) {
  if (!of(Kind::allocation).counted || !test::is_own_code(caller) || !fails_now(Kind::allocation, "new")) return false;
  passed = is_of_another_library(caller);
  return !passed;
}

void* take(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (is_refused(caller)) return nullptr;
  bytes = bytes == 0 ? 1 : bytes;
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory != nullptr) ++blocks;
  return memory;
}

void* take_or_throw(std::size_t bytes, std::size_t alignment, const void* caller) {
  if (void* const memory = take(bytes, alignment, caller)) return memory;
  throw std::bad_alloc();
}

void give_back(void* memory) {
  if (memory == nullptr) return;
  --blocks;
  std::free(memory);
}

}  // namespace

long seen(Kind kind) { return of(kind).seen; }
long live_blocks() { return blocks; }
bool passed_over() { return passed; }
std::string failed_call(Kind kind) {
  const char* const name = of(kind).failed;
  return name == nullptr ? "" : name;
}

Counting::Counting(Kind kind, long fails) : kind_(kind) {
  test::own_text();
  passed = false;
  counts().process = ::getpid();
  of(kind).seen = 0, of(kind).fails = fails, of(kind).failed = nullptr, of(kind).counted = true;
}
Counting::~Counting() { of(kind_).counted = false; }

bool fails_now(Kind kind, const char* name) {
  if (kind == Kind::file && counts().process != ::getpid()) kind = Kind::child;
  Calls& calls = of(kind);
  if (!calls.counted || calls.seen++ != calls.fails) return false;
  calls.failed = name;
  return true;
}

}  // namespace unisono::faults

using unisono::faults::Kind;

void* operator new(std::size_t n) { return unisono::faults::take_or_throw(n, 1, __builtin_return_address(0)); }
void* operator new[](std::size_t n) { return unisono::faults::take_or_throw(n, 1, __builtin_return_address(0)); }
void* operator new(std::size_t n, std::align_val_t a) {
  return unisono::faults::take_or_throw(n, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return unisono::faults::take_or_throw(n, static_cast<std::size_t>(a), __builtin_return_address(0));
}
// Whoever asks in this way does without: std::stable_sort, for one
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return unisono::faults::take(n, 1, nullptr); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return unisono::faults::take(n, 1, nullptr); }
void operator delete(void* p) noexcept { unisono::faults::give_back(p); }
void operator delete[](void* p) noexcept { unisono::faults::give_back(p); }
void operator delete(void* p, std::size_t) noexcept { unisono::faults::give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { unisono::faults::give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { unisono::faults::give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { unisono::faults::give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { unisono::faults::give_back(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { unisono::faults::give_back(p); }
