#include "runtime/cpu/scratch.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "runtime/cpu/worker_pool.hpp"
#include "support/machine_memory.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

constexpr std::size_t worth_asking = std::size_t{256} << 20;  // asking takes some microseconds

std::size_t affordable(std::size_t bytes) {
  const support::MemoryUse buffer{"one buffer", bytes};
  if (bytes >= worth_asking) support::require_memory({&buffer, 1});
  return bytes;
}

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t bytes)
    : data_(static_cast<std::byte*>(::operator new (aligned_size(affordable(bytes) + 1), std::align_val_t{alignment}))),
      size_(bytes) {}

void AlignedBuffer::Free::operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{alignment}); }

ScratchPieces::ScratchPieces(const OperatorScratch& scratch, std::size_t bytes)
    : memory_(scratch.data), bytes_(aligned_size(bytes)), count_(scratch.threads) {
  static_assert(per_word * std::tuple_size_v<decltype(taken_)> >= WorkerPool::most_threads, "a bit a thread");
}

ScratchPieces::Lease ScratchPieces::take() {
  for (int word = 0; word * per_word < count_; ++word) {
    auto& bits = taken_[static_cast<std::size_t>(word)];
    std::uint64_t taken = bits.load(std::memory_order_relaxed);
    for (int free = std::countr_one(taken); free < per_word && word * per_word + free < count_;
         free = std::countr_one(taken))
      if (bits.compare_exchange_weak(taken, taken | std::uint64_t{1} << free, std::memory_order_acquire,
                                     std::memory_order_relaxed))
        return {*this, word * per_word + free};
  }
  throw InternalError("more threads work at an operator than its memory is for");
}

void ScratchPieces::give_back(int number) {
  taken_[static_cast<std::size_t>(number / per_word)].fetch_and(~(std::uint64_t{1} << number % per_word),
                                                                std::memory_order_release);
}

ScratchPool& ScratchPool::shared() {
  static ScratchPool pool;
  return pool;
}

ScratchPool::Lease ScratchPool::borrow(std::size_t bytes) {
  AlignedBuffer buffer;
  {
    const std::lock_guard lock(mutex_);
    idle_.reserve(most_idle);  // giving back never allocates
    if (!idle_.empty()) {
      buffer = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (buffer.size() < bytes || !buffer.data()) {
    buffer = {};  // free the old one first
    buffer = AlignedBuffer(bytes);
  }
  return {*this, std::move(buffer)};
}

ScratchPool::Lease::~Lease() {
  const std::lock_guard lock(pool_->mutex_);
  if (pool_->idle_.size() >= most_idle) pool_->idle_.erase(pool_->idle_.begin());
  pool_->idle_.push_back(std::move(buffer_));
}

}  // namespace unisono::cpu
