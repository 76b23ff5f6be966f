#pragma once
/// One compilation of a key at a time on this host.

#include <memory>
#include <string>

#include "support/files.hpp"

namespace unisono::jit {

/// The lock file of a key, in a folder of this host and user: also when the cache is on a network file system, where
/// locks may be slow, absent, or left behind by a host that died. There are at most 4096 files: keys share them by
/// their first three digits, which costs a wait now and then. Throws std::system_error if there is no folder for them.
std::unique_ptr<support::FileLock> lock_of(const std::string& key);

}  // namespace unisono::jit
