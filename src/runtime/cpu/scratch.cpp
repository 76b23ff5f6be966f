#include "runtime/cpu/scratch.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "support/machine_memory.hpp"

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
