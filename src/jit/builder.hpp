#pragma once
/// Gets one binary: from a layer, from another thread or process that is at it, or from the compiler.

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <set>
#include <string>

#include "jit/cache.hpp"
#include "jit/compiler.hpp"
#include "jit/in_flight.hpp"
#include "jit/layers.hpp"
#include "jit/places.hpp"
#include "support/files.hpp"

namespace unisono::jit {

using Clock = std::chrono::steady_clock;

/// A request on its way.
struct Task {
  const Request* request = nullptr;
  Clock::time_point started;
  std::string program;                               ///< key of the program
  std::string key;                                   ///< empty: there is no compiler
  std::optional<Clock::time_point> busy_since = {};  ///< another process was found at it
  std::shared_ptr<InFlight::Work> pending = {};      ///< another thread was found at it
};

/// Safe to use from several threads.
class Builder {
 public:
  /// Throws UserError if a folder that the settings name is not to be trusted.
  Builder(Settings settings, std::shared_ptr<Compiler> compiler);

  int jobs() const { return jobs_; }

  Task task(const Request& request);

  /// One try. Null if another thread or process is at the same kernel and did not end within `wait_seconds`. Throws
  /// CompileError.
  ReadyPointer attempt(Task& task, double wait_seconds);

 private:
  Builder(Settings settings, std::shared_ptr<Compiler> compiler, const KernelFolders& places);
  std::string why_not_packed(const Task& task);
  ReadyPointer without_compiler(const Task& task);
  ReadyPointer look_up(const Task& task, bool repair);
  ReadyPointer lead(Task& task, double wait_seconds);
  std::unique_ptr<support::FileLock> open_lock(const Task& task);
  bool taken(support::FileLock& lock, Task& task, double wait_seconds);
  ReadyPointer build(const Task& task);
  void publish(const Task& task, const Compiled& compiled, double seconds, Ready& ready);
  void warn_of_unkept(const std::string& why);
  void warn(const std::string& kind, const std::string& text);

  Settings settings_;
  std::shared_ptr<Compiler> compiler_;
  std::filesystem::path folder_;  ///< empty: no cache
  Layers layers_;
  Cache cache_;
  int jobs_;
  std::counting_semaphore<> slots_;  ///< compilations at once
  InFlight in_flight_;
  std::mutex mutex_;
  std::set<std::string> warned_;
  std::map<std::string, ReadyPointer> unpublished_;  ///< by key, what could not be written to the cache
};

}  // namespace unisono::jit
