#include "support/machine_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace unisono::support {

std::uint64_t usable_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  std::uint64_t bytes = std::uint64_t{8} << 30;
  if (pages > 0 && page > 0) bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  for (const char* limit : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(limit);
    std::string text;
    std::uint64_t most = 0;
    if (std::getline(file, text) && std::from_chars(text.data(), text.data() + text.size(), most).ec == std::errc{})
      bytes = std::min(bytes, most);
  }
  rlimit own{};
  if (::getrlimit(RLIMIT_AS, &own) == 0 && own.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::uint64_t>(bytes, own.rlim_cur);
  return bytes;
}

}  // namespace unisono::support
