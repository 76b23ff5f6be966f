#include "faults.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>

namespace unisono::faults {
namespace {

struct Calls {
  std::atomic<bool> counted{false};
  std::atomic<long> seen{0}, fails{-1};
};
std::array<Calls, 4> all;
std::atomic<long> blocks{0};
std::atomic<bool> passed{false};

Calls& of(Kind kind) { return all[static_cast<std::size_t>(kind)]; }

// The code of this program, which our own libraries are linked into; other libraries are files of their own
struct Text {
  ElfW(Addr) begin = 0, end = 0;
};
const Text& own_text() {
  static const Text text = [] {
    Text found;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& part = info->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
            const ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
            *static_cast<Text*>(to) = {begin, begin + part.p_memsz};
          }
          return 1;  // the program is the first
        },
        &found);
    return found;
  }();
  return text;
}

bool is_own(const void* caller) {
  const auto at = reinterpret_cast<ElfW(Addr)>(caller);
  return at >= own_text().begin && at < own_text().end;
}

// Code of other libraries within this program. JSON's values take memory while they are destroyed; the messages of ONNX
// are read by protobuf's code, some of which its compiler writes.
bool is_foreign(const char* function) {
  for (const char* space : {"nlohmann", "6google8protobuf", "N4onnx"})
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
  frames.foreign = !is_own(at) || (named && is_foreign(info.dli_sname));
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
  if (!of(Kind::allocation).counted || !is_own(caller) || !fails_now(Kind::allocation)) return false;
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

Counting::Counting(Kind kind, long fails) {
  own_text();
  passed = false;
  of(kind).seen = 0, of(kind).fails = fails, of(kind).counted = true;
}
Counting::~Counting() {
  for (Calls& calls : all) calls.counted = false;
}

bool fails_now(Kind kind) {
  Calls& calls = of(kind);
  return calls.counted && calls.seen++ == calls.fails;
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

// The linker sends the calls of this program here (--wrap)
extern "C" {

#define UNISONO_WRAP(result, name, parameters, arguments, failure) \
  result __real_##name parameters;                                 \
  result __wrap_##name parameters {                                \
    if (unisono::faults::fails_now(Kind::file)) return failure;    \
    return __real_##name arguments;                                \
  }
#define UNISONO_FAIL(number, value) (errno = (number), (value))

int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  if (unisono::faults::fails_now(Kind::file)) return UNISONO_FAIL(EMFILE, -1);
  return __real_open(path, flags, mode);
}
UNISONO_WRAP(ssize_t, read, (int file, void* to, std::size_t n), (file, to, n), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(ssize_t, pread, (int file, void* to, std::size_t n, off_t at), (file, to, n, at), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(ssize_t, write, (int file, const void* from, std::size_t n), (file, from, n), UNISONO_FAIL(ENOSPC, -1))
UNISONO_WRAP(int, fsync, (int file), (file), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(int, syncfs, (int file), (file), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(int, stat, (const char* path, struct stat* info), (path, info), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(int, lstat, (const char* path, struct stat* info), (path, info), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(int, fchmod, (int file, mode_t mode), (file, mode), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(int, faccessat, (int folder, const char* path, int mode, int flags), (folder, path, mode, flags),
             UNISONO_FAIL(EACCES, -1))
int __real_close(int file);
int __wrap_close(int file) {  // the file is closed all the same
  const int result = __real_close(file);
  return unisono::faults::fails_now(Kind::file) ? UNISONO_FAIL(EIO, -1) : result;
}
UNISONO_WRAP(int, rename, (const char* from, const char* to), (from, to), UNISONO_FAIL(EACCES, -1))
UNISONO_WRAP(int, mkdir, (const char* path, mode_t mode), (path, mode), UNISONO_FAIL(ENOSPC, -1))
UNISONO_WRAP(int, flock, (int file, int operation), (file, operation), UNISONO_FAIL(ENOLCK, -1))
UNISONO_WRAP(int, fstat, (int file, struct stat* info), (file, info), UNISONO_FAIL(EIO, -1))

// oneDNN's, by the types that they have in C: of pointers to what only oneDNN knows
constexpr int dnnl_out_of_memory = 1;
#define UNISONO_WRAP_DNNL(name, parameters, arguments)                          \
  int __real_##name parameters;                                                 \
  int __wrap_##name parameters {                                                \
    if (unisono::faults::fails_now(Kind::primitive)) return dnnl_out_of_memory; \
    return __real_##name arguments;                                             \
  }
UNISONO_WRAP_DNNL(dnnl_primitive_create, (void** to, const void* description), (to, description))
UNISONO_WRAP_DNNL(dnnl_primitive_execute, (const void* primitive, void* stream, int n, const void* arguments),
                  (primitive, stream, n, arguments))

#define UNISONO_WRAP_SQLITE(name, parameters, arguments)                 \
  int __real_##name parameters;                                          \
  int __wrap_##name parameters {                                         \
    if (unisono::faults::fails_now(Kind::database)) return SQLITE_IOERR; \
    return __real_##name arguments;                                      \
  }
int __real_sqlite3_open_v2(const char* file, sqlite3** db, int flags, const char* vfs);
int __wrap_sqlite3_open_v2(const char* file, sqlite3** db, int flags, const char* vfs) {
  if (unisono::faults::fails_now(Kind::database)) return *db = nullptr, SQLITE_NOMEM;
  return __real_sqlite3_open_v2(file, db, flags, vfs);
}
int __real_sqlite3_prepare_v2(sqlite3* db, const char* sql, int n, sqlite3_stmt** to, const char** rest);
int __wrap_sqlite3_prepare_v2(sqlite3* db, const char* sql, int n, sqlite3_stmt** to, const char** rest) {
  if (unisono::faults::fails_now(Kind::database)) return *to = nullptr, SQLITE_NOMEM;
  return __real_sqlite3_prepare_v2(db, sql, n, to, rest);
}
UNISONO_WRAP_SQLITE(sqlite3_bind_text, (sqlite3_stmt * s, int at, const char* text, int n, void (*destroy)(void*)),
                    (s, at, text, n, destroy))
UNISONO_WRAP_SQLITE(sqlite3_step, (sqlite3_stmt * s), (s))
UNISONO_WRAP_SQLITE(sqlite3_exec,
                    (sqlite3 * db, const char* sql, int (*f)(void*, int, char**, char**), void* x, char** why),
                    (db, sql, f, x, why))
}
