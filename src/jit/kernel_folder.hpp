#pragma once
/// A folder of compiled kernels, the user's cache or a pack: what marks it as one, and which of its items are ours to
/// remove.

#include <filesystem>
#include <string>
#include <string_view>

namespace unisono::jit {

/// Folders beside the entries. Entries in the making and entries being removed; entries that could not be used; sources
/// that did not compile.
inline constexpr const char *making_folder = "tmp", *broken_folder = "broken", *failed_folder = "failed";

/// The file that says that all in a folder may be removed by `unisono cache prune`.
inline constexpr const char* marker_file = "unisono-kernels";

/// Why nothing may be written to or removed from `folder`: it holds what is not ours. Empty for one that is marked, is
/// absent, is empty, or holds only what a cache of before the marker holds.
std::string why_foreign(const std::filesystem::path& folder);

/// Makes the folder if there is none, and marks it. Throws UserError if it is foreign, std::system_error if it cannot
/// be written.
void claim(const std::filesystem::path& folder);

/// Whether the folder is marked.
bool is_marked(const std::filesystem::path& folder);

/// Whether `name` is one that something in a folder beside the entries may have; others are left alone.
bool is_leftover(std::string_view folder, std::string_view name);

}  // namespace unisono::jit
