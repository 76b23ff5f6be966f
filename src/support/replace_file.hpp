#pragma once
/// Results that replace an earlier one as a whole, or leave it as it was.

#include <filesystem>
#include <string_view>

namespace unisono::support {

/// Writes `bytes` as the whole of `path`: into a file beside it, which is on the disk before it takes the name. An
/// earlier file keeps its mode, a symbolic link its target. What is no regular file (/dev/stdout, a FIFO), or stands in
/// a folder where nothing can be renamed, is written in place. Throws std::system_error with the path; what stood there
/// is then unchanged, unless it was written in place.
void replace_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace unisono::support
