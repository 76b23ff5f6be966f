#pragma once
/// Memory of packed constants.

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "runtime/cpu/scratch.hpp"
#include "support/interned.hpp"

namespace unisono::cpu {

/// What `fill` writes to so many bytes, which are 0 before. Kernels with equal ones share one: the plans of a network
/// for several sizes read the same packed filters.
template <class F>
std::shared_ptr<const AlignedBuffer> constant_buffer(std::size_t bytes, F&& fill) {
  auto made = std::make_shared<AlignedBuffer>(bytes);
  std::memset(made->data(), 0, bytes);
  std::forward<F>(fill)(made->data());
  const std::span<const std::byte> filled(made->data(), bytes);
  return support::interned<AlignedBuffer>(std::move(made), filled);
}

}  // namespace unisono::cpu
