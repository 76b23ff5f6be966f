#pragma once
/// Equal requests of several threads of this process: one works, the others take its result.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "jit/request.hpp"

namespace unisono::jit {

/// A binary with all its kernels, as cache and compiler give it.
struct Ready {
  std::string key;
  std::vector<std::byte> cubin;
  std::map<std::string, Resources> kernels;
  std::filesystem::path folder;  ///< folder of the entry; empty if there is none
  bool cached = false;           ///< it was there before
};
using ReadyPointer = std::shared_ptr<const Ready>;

/// Safe to use from several threads.
class InFlight {
 public:
  /// What one thread is at work on.
  struct Work {
    enum class State { going, done, failed, given_up } state = State::going;
    ReadyPointer ready;
    std::exception_ptr error;
  };

  /// The thread that is to work. It says how that went; if it says nothing, it has given up and others may try.
  class Leader {
   public:
    Leader(InFlight& owner, std::string key, std::shared_ptr<Work> work)
        : owner_(&owner), key_(std::move(key)), work_(std::move(work)) {}
    Leader(Leader&& other) noexcept = default;
    ~Leader() { end(Work::State::given_up); }
    void done(ReadyPointer ready);
    void failed(std::exception_ptr error);

   private:
    void end(Work::State state);
    InFlight* owner_;
    std::string key_;
    std::shared_ptr<Work> work_;
  };

  struct Joined {
    std::optional<Leader> leader;  ///< this thread is to work
    ReadyPointer ready;            ///< another one has worked
  };                               // neither: the wait was too long, or the other has given up

  /// `pending` is the caller's from try to try: the work that it waits for, so that its result is not missed between
  /// two tries. Throws what the other thread has failed with.
  Joined join(const std::string& key, double wait_seconds, std::shared_ptr<Work>& pending);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, std::shared_ptr<Work>> works_;
};

}  // namespace unisono::jit
