#pragma once
/// What tells one build of a shared library from another, read from the file without loading it.

#include <filesystem>
#include <string>

namespace unisono::jit {

/// The linker's build identifier in hexadecimal digits; where a library has none, its name, size and time of change;
/// empty if the file cannot be read or is no 64-bit ELF file.
std::string build_id(const std::filesystem::path& library);

}  // namespace unisono::jit
