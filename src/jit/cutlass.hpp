#pragma once
/// CUTLASS's headers on this machine.

#include <filesystem>
#include <string>

namespace unisono::jit {

struct Cutlass {
  std::filesystem::path include;  ///< the folder that has cutlass/ and cute/
  std::string version;            ///< "4.2.0"

  /// The folder of cutlass/util/, beside include/: a header of the convolutions is there.
  std::filesystem::path utilities() const { return include.parent_path() / "tools" / "util" / "include"; }
};

/// `given`, else $UNISONO_CUTLASS (either is CUTLASS's folder or its include/), else the Python package nvidia-cutlass
/// in Unisono's own environment of tools. Throws CompileError that says where it was looked for.
Cutlass find_cutlass(const std::filesystem::path& given);

}  // namespace unisono::jit
