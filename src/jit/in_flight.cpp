#include "jit/in_flight.hpp"

#include <utility>

namespace unisono::jit {

void InFlight::Leader::done(ReadyPointer ready) {
  if (work_ == nullptr) return;
  work_->ready = std::move(ready);  // nobody reads it before the state says so
  end(Work::State::done);
}

void InFlight::Leader::failed(std::exception_ptr error) {
  if (work_ == nullptr) return;
  work_->error = std::move(error);
  end(Work::State::failed);
}

void InFlight::Leader::end(Work::State state) {
  if (work_ == nullptr) return;
  {
    const std::lock_guard lock(owner_->mutex_);
    work_->state = state;
    owner_->works_.erase(key_);
  }
  owner_->ended_.notify_all();
  work_ = nullptr;
}

InFlight::Joined InFlight::join(const std::string& key, double wait_seconds, std::shared_ptr<Work>& pending) {
  std::unique_lock lock(mutex_);
  if (pending == nullptr) {
    auto& slot = works_[key];
    if (slot == nullptr) {
      slot = std::make_shared<Work>();
      return {std::optional<Leader>(std::in_place, *this, key, slot), nullptr};
    }
    pending = slot;
  }
  const auto ended = [&] { return pending->state != Work::State::going; };
  if (!ended_.wait_for(lock, std::chrono::duration<double>(wait_seconds), ended)) return {};
  const std::shared_ptr<Work> work = std::exchange(pending, nullptr);
  if (work->state == Work::State::failed) std::rethrow_exception(work->error);
  return {std::nullopt, work->ready};
}

}  // namespace unisono::jit
