#pragma once
/// An entry of the cache: a folder with the source, the binary, the compiler's log and what is known of them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "jit/request.hpp"

namespace unisono::jit {

inline constexpr const char *cubin_file = "kernel.cubin", *log_file = "compile.log", *info_file = "entry.json";

struct FileInfo {
  std::uint64_t bytes = 0;
  std::string hash;
};

/// What entry.json holds, under a hash of itself.
struct EntryInfo {
  std::string key, program, headers;  ///< key.hpp; headers: empty in older entries
  std::string title, compiler, arch;
  std::vector<std::string> options, environment;  ///< environment: Compiler::environment()
  std::int64_t created = 0;                       ///< in seconds since 1970
  double seconds = 0;                             ///< that the compiler took
  std::map<std::string, Resources> kernels;
  std::map<std::string, FileInfo> files;  ///< all but entry.json, by name
};

std::string to_text(const EntryInfo& info);

/// Why an entry cannot be used.
struct Broken {
  std::string why;
};

std::variant<EntryInfo, Broken> parse_entry(std::string_view text);

/// There is no such entry.
struct Absent {};

struct Loaded {
  EntryInfo info;
  std::vector<std::byte> cubin;
  std::filesystem::path folder;
};

/// Reads an entry and compares its binary with size and hash. Takes no lock: an entry is whole from the moment when it
/// gets its name.
std::variant<Loaded, Absent, Broken> load_entry(const std::filesystem::path& folder);

/// A file of an entry, read whole.
std::variant<std::string, Broken> read_own(const std::filesystem::path& folder, const char* name, std::uint64_t most);

/// Reads entry.json alone. Links are not followed, and files that somebody else may have written are not read.
std::variant<EntryInfo, Absent, Broken> load_info(const std::filesystem::path& folder);

/// 32 hexadecimal digits: the name of an entry's folder.
bool is_key(std::string_view name);

}  // namespace unisono::jit
