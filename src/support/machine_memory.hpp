#pragma once

#include <cstdint>

namespace unisono::support {

/// Bytes of memory that this process may use: the machine's, or less where a control group or a limit of the process
/// (`ulimit -v`) says so.
std::uint64_t usable_memory();

}  // namespace unisono::support
