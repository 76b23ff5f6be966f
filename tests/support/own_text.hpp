#pragma once
/// The code of this program, which the library is linked into. Shared libraries have code of their own, so the address
/// of a caller says whether the call is the library's.

#include <link.h>

#include <cstddef>

namespace unisono::test {

/// Addresses in [begin, end).
struct OwnText {
  ElfW(Addr) begin = 0, end = 0;
};

inline const OwnText& own_text() {
  static const OwnText text = [] {
    OwnText found;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& part = info->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
            const ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
            *static_cast<OwnText*>(to) = {begin, begin + part.p_memsz};
          }
          return 1;  // the program is the first
        },
        &found);
    return found;
  }();
  return text;
}

inline bool is_own_code(const void* caller) {
  const auto at = reinterpret_cast<ElfW(Addr)>(caller);
  return at >= own_text().begin && at < own_text().end;
}

}  // namespace unisono::test
