#include "jit/builder.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <system_error>
#include <thread>

#include "jit/key.hpp"
#include "jit/lock.hpp"
#include "jit/places.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

int job_count(const Settings& settings) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return settings.jobs > 0 ? settings.jobs : std::max(1, cores);
}

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ReadyPointer from_entry(Loaded&& entry) {
  return std::make_shared<Ready>(Ready{.key = entry.info.key,
                                       .cubin = std::move(entry.cubin),
                                       .kernels = std::move(entry.info.kernels),
                                       .folder = std::move(entry.folder),
                                       .cached = true});
}

/// Holds one of the slots for compilations.
class Slot {
 public:
  explicit Slot(std::counting_semaphore<>& slots) : slots_(slots) { slots_.acquire(); }
  ~Slot() { slots_.release(); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  std::counting_semaphore<>& slots_;
};

std::filesystem::path folder_of(const KernelFolder& place) { return place.refused.empty() ? place.folder : ""; }

std::vector<std::filesystem::path> folders_of(const std::vector<KernelFolder>& places) {
  std::vector<std::filesystem::path> folders;
  for (const KernelFolder& p : places)
    if (p.refused.empty()) folders.push_back(p.folder);
  return folders;
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): handed over
Builder::Builder(Settings settings, std::shared_ptr<Compiler> compiler)
    : Builder(settings, std::move(compiler), kernel_folders_of(settings)) {}

Builder::Builder(Settings settings, std::shared_ptr<Compiler> compiler, const KernelFolders& places)
    : settings_(std::move(settings)),
      compiler_(std::move(compiler)),
      folder_(folder_of(places.cache)),
      layers_(folders_of(places.packs), folder_, [this](const std::string& text) { warn("pack", text); }),
      cache_(folder_),
      jobs_(job_count(settings_)),
      slots_(jobs_) {
  if (!folder_.empty()) cache_.sweep();
  if (!places.cache.refused.empty()) {
    warn("cache",
         "the kernel cache is not used, every process will compile its kernels again: " + places.cache.refused);
  } else if (settings_.use_cache && folder_.empty()) {
    warn("cache", "compiled kernels are not kept: none of UNISONO_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  }
  for (const KernelFolder& p : places.packs)
    if (!p.refused.empty()) warn("pack " + p.folder.string(), "a pack is not used: " + p.refused);
}

Task Builder::task(const Request& request) {
  if (request.arch.empty()) throw InternalError(fmt::format("no architecture to compile for: {}", request.title));
  Task task{.request = &request, .started = Clock::now(), .program = program_key(request), .key = {}};
  try {
    task.key = binary_key(task.program, *compiler_, request);
  } catch (const CompileError&) {
    // no compiler on this machine: attempt() looks for what another compiler has made, and reports this if there is
    // none
  }
  return task;
}

ReadyPointer Builder::attempt(Task& task, double wait_seconds) {
  if (auto entry = layers_.find_packed(task.program)) return from_entry(std::move(*entry));
  if (const std::string why = why_not_packed(task); !why.empty()) warn("another version", why);
  if (task.key.empty()) return without_compiler(task);
  if (ReadyPointer ready = look_up(task, false)) return ready;
  InFlight::Joined joined = in_flight_.join(task.key, wait_seconds, task.pending);
  if (!joined.leader) return joined.ready;
  try {
    ReadyPointer ready = lead(task, wait_seconds);
    if (ready != nullptr) joined.leader->done(ready);
    return ready;
  } catch (...) {
    joined.leader->failed(std::current_exception());
    throw;
  }
}

/// Packs of which nothing can be used, as their kernels are made of other device code. Host libraries name the headers
/// that they are made of, so they say nothing of a version.
std::string Builder::why_not_packed(const Task& task) {
  const Layers::Packed packed = layers_.packed();
  if (packed.entries == 0 || task.request->host_library || packed.headers.contains(headers_key(*task.request)))
    return "";
  return fmt::format("the packs' {} kernels ({}) were made by another version of Unisono, and are not used",
                     packed.entries, packed.folders);
}

ReadyPointer Builder::without_compiler(const Task& task) try {
  if (auto entry = layers_.find_program(task.program)) return from_entry(std::move(*entry));
  compiler_->identity();  // throws, and says what is missing
  throw CompileError("a compiler has appeared meanwhile; please try again");
} catch (const CompileError& error) {
  const Layers::Packed packed = layers_.packed();
  if (packed.folders.empty()) throw;
  const std::string why = why_not_packed(task);
  throw CompileError(fmt::format("{}; {}", error.what(),
                                 why.empty() ? fmt::format("'{}' is not among the {} kernels of the packs ({})",
                                                           task.request->title, packed.entries, packed.folders)
                                             : why));
}

/// With `repair`, an entry that cannot be used is moved out of the way; only the holder of the lock does that.
ReadyPointer Builder::look_up(const Task& task, bool repair) {
  Layers::Found found = layers_.find(task.key);
  if (found.entry) return from_entry(std::move(*found.entry));
  if (found.broken && repair) {
    try {
      cache_.move_aside(task.key);
    } catch (const std::system_error& error) {
      warn("repair", fmt::format("a broken entry of the kernel cache cannot be moved away ({}): {}", found.broken->why,
                                 error.what()));
    }
  }
  const std::lock_guard lock(mutex_);
  const auto kept = unpublished_.find(task.key);
  return kept == unpublished_.end() ? nullptr : kept->second;
}

std::unique_ptr<support::FileLock> Builder::open_lock(const Task& task) try {
  return folder_.empty() ? nullptr : lock_of(task.key);
} catch (const std::system_error& error) {
  warn("lock",
       fmt::format("there are no locks between processes, several may compile the same kernel: {}", error.what()));
  return nullptr;
}

/// True also if waiting has lasted too long: the other process may be stopped. Two at the same kernel do no harm, the
/// second to end finds the entry and drops its own.
bool Builder::taken(support::FileLock& lock, Task& task, double wait_seconds) try {
  if (lock.try_lock(wait_seconds)) return true;
  if (!task.busy_since) task.busy_since = Clock::now();
  if (since(*task.busy_since) < settings_.lock_seconds) return false;
  warn("wait", fmt::format("another process has been at '{}' for {:.0f} s; compiling it here too", task.request->title,
                           since(*task.busy_since)));
  return true;
} catch (const std::system_error& error) {
  warn("lock",
       fmt::format("there are no locks between processes, several may compile the same kernel: {}", error.what()));
  return true;
}

ReadyPointer Builder::lead(Task& task, double wait_seconds) {
  const auto lock = open_lock(task);
  if (lock != nullptr && !taken(*lock, task, wait_seconds)) return nullptr;
  if (ReadyPointer ready = look_up(task, true)) return ready;  // made by whoever had the lock before
  const Slot slot(slots_);
  return build(task);
}

ReadyPointer Builder::build(const Task& task) {
  const auto start = Clock::now();
  Compiled compiled = compiler_->compile(*task.request);
  if (compiled.kernels.empty()) {
    const Kept kept = keep_failed(folder_, task.key, *task.request, compiled);
    throw CompileError(message_of_failure(*task.request, compiled, kept));
  }
  auto ready = std::make_shared<Ready>();
  ready->key = task.key;
  ready->kernels = compiled.kernels;
  if (!folder_.empty()) publish(task, compiled, since(start), *ready);
  ready->cubin = std::move(compiled.cubin);
  if (!folder_.empty() && ready->folder.empty()) {
    const std::lock_guard lock(mutex_);
    unpublished_[task.key] = ready;
  }
  return ready;
}

void Builder::publish(const Task& task, const Compiled& compiled, double seconds, Ready& ready) try {
  const Request& request = *task.request;
  ready.folder = cache_.publish({.request = request,
                                 .compiled = compiled,
                                 .info = {.key = task.key,
                                          .program = task.program,
                                          .headers = headers_key(request),
                                          .title = request.title,
                                          .compiler = compiler_->description(),
                                          .arch = request.arch,
                                          .options = all_options(*compiler_, request),
                                          .environment = compiler_->environment(),
                                          .created = std::time(nullptr),
                                          .seconds = seconds,
                                          .kernels = compiled.kernels,
                                          .files = {}}});
} catch (const std::system_error& error) {
  warn_of_unkept(error.what());
} catch (const UserError& error) {  // the folder has become something else meanwhile
  warn_of_unkept(error.what());
}

void Builder::warn_of_unkept(const std::string& why) {
  warn("write", "compiled kernels are not kept, every process will compile them again: " + why);
}

void Builder::warn(const std::string& kind, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (!warned_.insert(kind).second) return;
  if (settings_.warn) {
    settings_.warn(text);
  } else {
    std::fputs(fmt::format("unisono: {}\n", text).c_str(), stderr);
  }
}

}  // namespace unisono::jit
