// Calls of this program for files, for processes, of SQLite and of oneDNN: the linker sends them here (--wrap).
//
// Left out on purpose:
// * mmap, getrlimit, sysconf, getpwuid_r, getgrgid_r, gethostname, isatty: what they do not say is taken for unknown,
//   which unit tests of those modules cover by what they read.
// * vfork: it returns twice, which no wrapper survives. chdir, setpgid, prctl, sigaction, pthread_sigmask, close_range,
//   kill: with the arguments that ours have they fail on no system that has them; chdir, as execve, by a test of its
//   own.
// * fgets, fclose: beside fopen and fread in the one function that has them.
// * sqlite3_finalize, sqlite3_busy_timeout, sqlite3_changes, sqlite3_errmsg, sqlite3_errstr, sqlite3_column_bytes,
//   _int64 and _double, sqlite3_sleep: they report nothing that did not fail before.
// * What std::filesystem and iostreams call belongs to libstdc++.so, and dlopen to no cycle here: a library that is not
//   found is an error that tests of the driver and of NVRTC have.
#include <fcntl.h>
#include <oneapi/dnnl/dnnl_config.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "faults.hpp"

using unisono::faults::fails_now;
using unisono::faults::Kind;

extern "C" {

#define UNISONO_WRAP_AS(kind, result, name, parameters, arguments, failure) \
  result __real_##name parameters;                                          \
  result __wrap_##name parameters {                                         \
    if (fails_now(kind, #name)) return failure;                             \
    return __real_##name arguments;                                         \
  }
#define UNISONO_WRAP(result, name, parameters, arguments, failure) \
  UNISONO_WRAP_AS(Kind::file, result, name, parameters, arguments, failure)
#define UNISONO_FAIL(number, value) (errno = (number), (value))

int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  if (fails_now(Kind::file, "open")) return UNISONO_FAIL(EMFILE, -1);
  return __real_open(path, flags, mode);
}
int __real_fcntl(int file, int command, ...);
int __wrap_fcntl(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  const int number = va_arg(more, int);  // every call of ours has one
  va_end(more);
  if (fails_now(Kind::file, "fcntl")) return UNISONO_FAIL(EMFILE, -1);
  return __real_fcntl(file, command, number);
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
  return fails_now(Kind::file, "close") ? UNISONO_FAIL(EIO, -1) : result;
}
UNISONO_WRAP(int, rename, (const char* from, const char* to), (from, to), UNISONO_FAIL(EACCES, -1))
UNISONO_WRAP(int, mkdir, (const char* path, mode_t mode), (path, mode), UNISONO_FAIL(ENOSPC, -1))
UNISONO_WRAP(int, flock, (int file, int operation), (file, operation), UNISONO_FAIL(ENOLCK, -1))
UNISONO_WRAP(int, fstat, (int file, struct stat* info), (file, info), UNISONO_FAIL(EIO, -1))
UNISONO_WRAP(int, fchown, (int file, uid_t user, gid_t group), (file, user, group), UNISONO_FAIL(EPERM, -1))
UNISONO_WRAP(int, utimensat, (int folder, const char* path, const struct timespec* times, int flags),
             (folder, path, times, flags), UNISONO_FAIL(EROFS, -1))
UNISONO_WRAP(int, access, (const char* path, int mode), (path, mode), UNISONO_FAIL(EACCES, -1))
UNISONO_WRAP(ssize_t, readlink, (const char* path, char* to, std::size_t n), (path, to, n), UNISONO_FAIL(EACCES, -1))
UNISONO_WRAP(std::FILE*, fopen, (const char* path, const char* mode), (path, mode), UNISONO_FAIL(EMFILE, nullptr))
UNISONO_WRAP(std::size_t, fread, (void* to, std::size_t size, std::size_t n, std::FILE* file), (to, size, n, file),
             UNISONO_FAIL(EIO, std::size_t{0}))
UNISONO_WRAP_AS(Kind::removal, int, unlink, (const char* path), (path), UNISONO_FAIL(EACCES, -1))

// Processes. What a forked one calls is counted as Kind::child.
UNISONO_WRAP(int, pipe2, (int* ends, int flags), (ends, flags), UNISONO_FAIL(EMFILE, -1))
UNISONO_WRAP(pid_t, fork, (), (), UNISONO_FAIL(EAGAIN, -1))
UNISONO_WRAP(pid_t, _Fork, (), (), UNISONO_FAIL(EAGAIN, -1))
UNISONO_WRAP(int, dup2, (int from, int to), (from, to), UNISONO_FAIL(EMFILE, -1))
UNISONO_WRAP(int, execve, (const char* path, char* const* arguments, char* const* environment),
             (path, arguments, environment), UNISONO_FAIL(ENOMEM, -1))
pid_t __real_waitpid(pid_t process, int* status, int options);
pid_t __wrap_waitpid(pid_t process, int* status, int options) {  // somebody else has waited for it
  const pid_t result = __real_waitpid(process, status, options);
  return fails_now(Kind::file, "waitpid") ? UNISONO_FAIL(ECHILD, -1) : result;
}

// oneDNN's, by the types that they have in C: of pointers to what only oneDNN knows
constexpr int dnnl_out_of_memory = 1;
UNISONO_WRAP_AS(Kind::primitive, int, dnnl_primitive_create, (void** to, const void* description), (to, description),
                dnnl_out_of_memory)
UNISONO_WRAP_AS(Kind::primitive, int, dnnl_primitive_execute,
                (const void* primitive, void* stream, int n, const void* arguments), (primitive, stream, n, arguments),
                dnnl_out_of_memory)

#ifdef DNNL_EXPERIMENTAL_SPARSE  // dnnl.hpp then makes memory by a function of its own
UNISONO_WRAP_AS(Kind::object, int, dnnl_memory_create_v2,
                (void** to, const void* description, void* engine, int n, void** handles),
                (to, description, engine, n, handles), dnnl_out_of_memory)
#else
UNISONO_WRAP_AS(Kind::object, int, dnnl_memory_create, (void** to, const void* description, void* engine, void* handle),
                (to, description, engine, handle), dnnl_out_of_memory)
#endif
UNISONO_WRAP_AS(Kind::object, int, dnnl_stream_create, (void** to, void* engine, unsigned flags), (to, engine, flags),
                dnnl_out_of_memory)

#define UNISONO_WRAP_SQLITE(name, parameters, arguments) \
  UNISONO_WRAP_AS(Kind::database, int, name, parameters, arguments, SQLITE_IOERR)
int __real_sqlite3_open_v2(const char* file, sqlite3** db, int flags, const char* vfs);
int __wrap_sqlite3_open_v2(const char* file, sqlite3** db, int flags, const char* vfs) {
  if (fails_now(Kind::database, "sqlite3_open_v2")) return *db = nullptr, SQLITE_NOMEM;
  return __real_sqlite3_open_v2(file, db, flags, vfs);
}
int __real_sqlite3_prepare_v2(sqlite3* db, const char* sql, int n, sqlite3_stmt** to, const char** rest);
int __wrap_sqlite3_prepare_v2(sqlite3* db, const char* sql, int n, sqlite3_stmt** to, const char** rest) {
  if (fails_now(Kind::database, "sqlite3_prepare_v2")) return *to = nullptr, SQLITE_NOMEM;
  return __real_sqlite3_prepare_v2(db, sql, n, to, rest);
}
UNISONO_WRAP_SQLITE(sqlite3_bind_text, (sqlite3_stmt * s, int at, const char* text, int n, void (*destroy)(void*)),
                    (s, at, text, n, destroy))
UNISONO_WRAP_SQLITE(sqlite3_bind_int, (sqlite3_stmt * s, int at, int number), (s, at, number))
UNISONO_WRAP_SQLITE(sqlite3_bind_double, (sqlite3_stmt * s, int at, double number), (s, at, number))
UNISONO_WRAP_AS(Kind::database, const unsigned char*, sqlite3_column_text, (sqlite3_stmt * s, int column), (s, column),
                nullptr)
UNISONO_WRAP_SQLITE(sqlite3_step, (sqlite3_stmt * s), (s))
// These two give back, and report what failed before
#define UNISONO_WRAP_SQLITE_END(name, type)                                             \
  int __real_##name(type* what);                                                        \
  int __wrap_##name(type* what) {                                                       \
    const int result = __real_##name(what);                                             \
    return what != nullptr && fails_now(Kind::database, #name) ? SQLITE_IOERR : result; \
  }
UNISONO_WRAP_SQLITE_END(sqlite3_reset, sqlite3_stmt)
UNISONO_WRAP_SQLITE_END(sqlite3_close, sqlite3)
UNISONO_WRAP_SQLITE(sqlite3_exec,
                    (sqlite3 * db, const char* sql, int (*f)(void*, int, char**, char**), void* x, char** why),
                    (db, sql, f, x, why))
}
