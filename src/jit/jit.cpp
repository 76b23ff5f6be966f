#include "jit/jit.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "jit/builder.hpp"
#include "support/threads.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

/// How long a worker waits for another process before it looks at its other tasks again.
constexpr double patience = 0.005;

Binary binary_of(const Task& task, const Ready& ready) {
  const auto kernel = ready.kernels.find(task.request->entry);
  if (kernel == ready.kernels.end()) throw CompileError(message_of_missing_kernel(*task.request, ready.kernels));
  return {.cubin = ready.cubin,
          .resources = kernel->second,
          .key = ready.key,
          .cached = ready.cached,
          .seconds = std::chrono::duration<double>(Clock::now() - task.started).count(),
          .entry = ready.folder};
}

/// Requests with one key: one compilation, as many binaries.
struct Group {
  std::vector<std::size_t> members;  ///< indices into the batch
  Task task;                         ///< what the first member asks for
  bool busy_elsewhere = false;       ///< another process was at it when it was last tried
};

/// Compiles all requests of a call with some threads. A kernel that another process is at goes to the end of the queue,
/// so that processes that start at once with the same kernels share the work.
class Batch {
 public:
  Batch(Builder& builder, std::span<const Request> requests, const Progress& progress)
      : builder_(builder), requests_(requests), progress_(progress), results_(requests.size()) {
    std::map<std::string, std::size_t> groups;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Task task = builder.task(requests[i]);
      const auto [at, is_new] = groups.emplace(task.program + task.key, groups_.size());
      if (is_new) groups_.push_back({{}, std::move(task), false});
      groups_[at->second].members.push_back(i);
    }
    for (Group& g : groups_) queue_.push_back(&g);
  }

  std::vector<Binary> run() {
    const std::size_t count = std::min(groups_.size(), static_cast<std::size_t>(builder_.jobs()));
    std::vector<std::jthread> threads;
    support::start_up_to(threads, count - std::min<std::size_t>(count, 1), [this] { work(); });
    work();
    threads.clear();
    if (error_) std::rethrow_exception(error_);
    return std::move(results_);
  }

 private:
  Group* next() {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return nullptr;
    Group* group = queue_.front();
    queue_.pop_front();
    return group;
  }

  void work() {
    while (Group* group = next()) {
      try {
        const ReadyPointer ready = builder_.attempt(group->task, group->busy_elsewhere ? patience : 0);
        if (ready == nullptr) {
          const std::lock_guard lock(mutex_);
          group->busy_elsewhere = true;
          queue_.push_back(group);
          continue;
        }
        for (const std::size_t i : group->members) {
          Task task = group->task;
          task.request = &requests_[i];
          results_[i] = binary_of(task, *ready);
        }
      } catch (...) {
        fail(group->members.front(), std::current_exception());
      }
      try {
        report(*group);
      } catch (...) {  // the caller's function threw
        fail(requests_.size(), std::current_exception());
      }
    }
  }

  /// The first error is that of the first request, whichever thread was faster.
  void fail(std::size_t index, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ && error_index_ < index) return;
    error_ = std::move(error);
    error_index_ = index;
  }

  void report(const Group& group) {
    const std::lock_guard lock(progress_mutex_);
    for (const std::size_t i : group.members) {
      ++done_;
      if (progress_) progress_(done_, requests_.size(), requests_[i].title);
    }
  }

  Builder& builder_;
  std::span<const Request> requests_;
  const Progress& progress_;
  std::vector<Binary> results_;
  std::vector<Group> groups_;
  std::mutex mutex_, progress_mutex_;
  std::deque<Group*> queue_;
  std::exception_ptr error_;
  std::size_t error_index_ = 0, done_ = 0;
};

std::shared_ptr<Compiler> compiler_of(const Settings& settings) {
  return settings.compiler == CompilerKind::nvcc ? make_nvcc(settings.nvcc) : make_nvrtc(settings.nvrtc);
}

}  // namespace

std::string description_of(const Settings& settings) { return compiler_of(settings)->description(); }

// Kernels and host libraries have compilers of their own, and the same folders
struct Jit::Impl {
  Builder builder;
  Settings settings;
  std::shared_ptr<Compiler> given;  // by the caller, for both
  std::once_flag once = {};
  std::unique_ptr<Builder> libraries = {};

  Builder& of(bool host_library) {
    if (!host_library) return builder;
    std::call_once(once, [this] {
      auto compiler = given != nullptr ? given : make_host_library_compiler(settings.nvcc, settings.cutlass);
      libraries = std::make_unique<Builder>(settings, std::move(compiler));
    });
    return *libraries;
  }
};

// NOLINTNEXTLINE(performance-unnecessary-value-param): one signature for callers that hand it over and that keep it
Jit::Jit(Settings settings) : impl_(new Impl{Builder(settings, compiler_of(settings)), settings, nullptr}) {}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
Jit::Jit(Settings settings, std::shared_ptr<Compiler> compiler)
    : impl_(new Impl{Builder(settings, compiler), settings, compiler}) {}

Jit::~Jit() = default;

Binary Jit::compile(const Request& request) {
  Builder& builder = impl_->of(request.host_library);
  Task task = builder.task(request);
  while (true) {
    if (const ReadyPointer ready = builder.attempt(task, 0.1)) return binary_of(task, *ready);
  }
}

std::vector<Binary> Jit::compile(std::span<const Request> requests, const Progress& progress) {
  if (std::ranges::none_of(requests, &Request::host_library)) return Batch(impl_->builder, requests, progress).run();
  std::vector<Binary> all(requests.size());
  std::size_t ended = 0;  // of the kind ahead
  for (const bool host_library : {false, true}) {
    std::vector<Request> some;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i].host_library == host_library) some.push_back(requests[i]), places.push_back(i);
    if (some.empty()) continue;
    const Progress counted = [&](std::size_t done, std::size_t, const std::string& title) {
      progress(ended + done, requests.size(), title);
    };
    std::vector<Binary> made = Batch(impl_->of(host_library), some, progress ? counted : Progress()).run();
    for (std::size_t i = 0; i < some.size(); ++i) all[places[i]] = std::move(made[i]);
    ended += some.size();
  }
  return all;
}

}  // namespace unisono::jit
