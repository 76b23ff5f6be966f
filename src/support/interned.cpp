#include "support/interned.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <typeindex>
#include <unordered_map>

#include "support/hash.hpp"

namespace unisono::support {

namespace {

constexpr std::size_t least_bytes = 4096;

struct Owned {
  std::type_index type;
  std::weak_ptr<const void> owner;
  std::span<const std::byte> bytes;  // as long as there is an owner
};

class Interned {
 public:
  std::shared_ptr<const void> first(const std::string& hash, const Owned& wanted) {
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      const Owned& known = it->second;
      const std::shared_ptr<const void> owner = known.owner.lock();
      if (owner && known.type == wanted.type && std::ranges::equal(known.bytes, wanted.bytes)) return owner;
    }
    if (by_hash_.size() >= most_) forget();
    by_hash_.emplace(hash, wanted);
    return nullptr;
  }

 private:
  void forget() {
    std::erase_if(by_hash_, [](const auto& entry) { return entry.second.owner.expired(); });
    most_ = std::max<std::size_t>(64, 2 * by_hash_.size());
  }

  std::unordered_multimap<std::string, Owned> by_hash_;
  std::size_t most_ = 64;  // from which on it looks for those that are gone
};

}  // namespace

std::shared_ptr<const void> interned(const std::type_info& type, std::shared_ptr<const void> made,
                                     std::span<const std::byte> bytes) {
  static std::mutex mutex;
  static Interned all;
  if (bytes.size() < least_bytes) return made;
  const std::string of_bytes = hash(bytes);
  const std::lock_guard lock(mutex);
  std::shared_ptr<const void> known = all.first(of_bytes, {type, made, bytes});
  return known ? known : made;
}

}  // namespace unisono::support
