#pragma once
/// Memory that this process may use, asked before it is taken: a system that promises more than it has ends the process
/// when the memory is touched.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace unisono::support {

/// Bytes of memory that this process may use: the machine's, or less where a control group of the process, one that
/// this lies in, or a limit of the process (`ulimit -v`) says so.
std::uint64_t usable_memory();

/// The least limit of the control groups in `membership` (the form of /proc/self/cgroup) and of all that they lie in,
/// whose tree is at `root` (version 2; version 1 has it in root/memory); the largest number if there is none.
std::uint64_t control_group_limit(const std::filesystem::path& membership, const std::filesystem::path& root);

/// What takes memory, and how many bytes.
struct MemoryUse {
  std::string_view what;
  std::uint64_t bytes = 0;
};

/// Throws UserError that names each part, the largest first, if together they take more than usable_memory().
void require_memory(std::span<const MemoryUse> parts);

/// The same error for memory that the system has refused.
[[noreturn]] void refuse_memory(std::span<const MemoryUse> parts);

}  // namespace unisono::support
