#pragma once
/// Constants of the process, each once: owners of equal bytes share the first one's.

#include <cstddef>
#include <memory>
#include <span>
#include <typeinfo>
#include <utility>

namespace unisono::support {

/// Returns `made`, or another owner of the same type that holds the same bytes. `bytes` are those of `made`, and are
/// never written again. Small ones are not looked for.
std::shared_ptr<const void> interned(const std::type_info& type, std::shared_ptr<const void> made,
                                     std::span<const std::byte> bytes);

template <class T>
std::shared_ptr<const T> interned(std::shared_ptr<const T> made, std::span<const std::byte> bytes) {
  return std::static_pointer_cast<const T>(interned(typeid(T), std::move(made), bytes));
}

}  // namespace unisono::support
