/// Constants in the network's own order of memory.

#include "network/dim.hpp"
#include "network/space.hpp"
#include "network/steps.hpp"
#include "network/storage.hpp"
#include "network/strided_copy.hpp"
#include "support/interned.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

ConstantData in_memory_order(const NetworkTensor& t) {
  if (!t.is_constant()) return {};
  const void* given = t.elements().data();
  const std::size_t bytes = t.elements().size();
  if (logical_order(t.shape)) {
    // shares the network's elements
    if (t.constant) return {std::shared_ptr<const void>(t.constant, given), bytes};
    return {std::shared_ptr<const void>(t.bytes, given), bytes};
  }
  const Sizes s = values(t.shape);
  auto made = std::make_shared<std::vector<std::uint64_t>>(bytes / sizeof(std::uint64_t) + 1);
  copy_strided(size_of(t.dtype), s, given, row_major_strides(s), made->data(), logical_strides(s, column_count(s)));
  const auto words = std::as_bytes(std::span(*made));
  const auto out = support::interned<std::vector<std::uint64_t>>(std::move(made), words);
  return {std::shared_ptr<const void>(out, out->data()), bytes};
}

}  // namespace unisono::network
