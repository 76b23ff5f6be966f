#pragma once
/// Who could have written a file: the rules by which OpenSSH believes its own files.

#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace unisono::support {

/// Root or this process's user owns it, and nobody else may write to it. The group of a user alone counts as that user:
/// it has the user's name, is the user's first group, and has no other members.
bool is_own(const struct stat& info);

/// Why `path` may hold what somebody else wrote; empty if only this user and root can have. All of the way to it is
/// checked, symbolic links included: each folder up to the root (or to this user's home) must be own, or sticky and
/// owned by this user or root, as /tmp is. What does not exist, or may not be looked at, is no reason.
std::string why_distrusted(const std::filesystem::path& path);

}  // namespace unisono::support
