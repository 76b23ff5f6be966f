#pragma once
/// NumPy's .npz files: ZIP archives of .npy files (numpy.savez and numpy.savez_compressed), read and written by libzip.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "media/npy.hpp"

namespace unisono::media {

/// Arrays and their names (those of the members without ".npy"), in the order of the archive.
using NamedArrays = std::vector<std::pair<std::string, Array>>;

/// Decodes a .npz file with stored or deflated members. `name` is used in messages. Throws UserError for damage (a
/// wrong checksum included), members that are no .npy files, encryption, names that are given twice, are absolute or
/// hold "..", backslashes or control characters, and for more than `limits.bytes` in all members together.
NamedArrays decode_npz(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits = {});
NamedArrays read_npz(const std::filesystem::path& path, const Limits& limits = {});

/// The arrays as a .npz file, stored (as numpy.savez does); the same bytes for the same arrays.
std::vector<std::uint8_t> encode_npz(const NamedArrays& arrays);
void write_npz(const std::filesystem::path& path, const NamedArrays& arrays);

}  // namespace unisono::media
