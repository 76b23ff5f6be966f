#include "support/machine_memory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <vector>

#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

// "max" is no number, and no limit
std::uint64_t limit_in(const fs::path& file) {
  std::uint64_t limit = no_limit;
  if (const auto text = read_file(file)) std::from_chars(text->data(), text->data() + text->size(), limit);
  return limit;
}

// The group and all that it lies in are asked. Within a container the path may be the host's, and its folders not be
// there.
std::uint64_t least_limit(const fs::path& root, std::string_view group, const char* file) {
  std::uint64_t least = limit_in(root / file);
  fs::path at = root;
  for (const fs::path& part : fs::path(group).relative_path()) {
    if (part == "..") continue;  // above the container's own tree
    at /= part;
    least = std::min(least, limit_in(at / file));
  }
  return least;
}

std::uint64_t sum(std::span<const MemoryUse> parts) {
  std::uint64_t all = 0;
  for (const MemoryUse& part : parts)
    if (__builtin_add_overflow(all, part.bytes, &all)) return no_limit;
  return all;
}

std::string listed(std::span<const MemoryUse> parts) {
  std::vector<MemoryUse> order(parts.begin(), parts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const MemoryUse& x, const MemoryUse& y) { return x.bytes > y.bytes; });
  std::vector<std::string> texts;
  for (const MemoryUse& part : order)
    if (part.bytes > 0) texts.push_back(fmt::format("{} {}", part.what, part.bytes));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::uint64_t control_group_limit(const fs::path& membership, const fs::path& root) {
  std::uint64_t least = std::min(limit_in(root / "memory.max"), limit_in(root / "memory" / "memory.limit_in_bytes"));
  const std::string lines = read_file(membership).value_or("");
  for (std::size_t begin = 0, end; begin < lines.size(); begin = end + 1) {
    end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);  // "0::/group", or "4:cpu,memory:/group" in version 1
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers == ",,") least = std::min(least, least_limit(root, group, "memory.max"));
    if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, least_limit(root / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

std::uint64_t usable_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  std::uint64_t bytes = std::uint64_t{8} << 30;
  if (pages > 0 && page > 0) bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  bytes = std::min(bytes, control_group_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
  rlimit own{};
  if (::getrlimit(RLIMIT_AS, &own) == 0 && own.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::uint64_t>(bytes, own.rlim_cur);
  return bytes;
}

void require_memory(std::span<const MemoryUse> parts) {
  const std::uint64_t all = sum(parts), most = usable_memory();
  if (all > most)
    throw UserError(fmt::format(
        "a run takes {} bytes for these inputs, and this process may use {} ({}); give smaller inputs, or a machine or "
        "a limit (ulimit -v, control group) with more memory",
        all, most, listed(parts)));
}

void refuse_memory(std::span<const MemoryUse> parts) {
  throw UserError(
      fmt::format("out of memory: a run takes {} bytes for these inputs, which cannot be allocated ({}); give smaller "
                  "inputs, or a machine or a limit (ulimit -v, control group) with more memory",
                  sum(parts), listed(parts)));
}

}  // namespace unisono::support
