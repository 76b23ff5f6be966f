#pragma once
/// Outputs of a network as .npy and .npz files.

#include <filesystem>
#include <string>
#include <vector>

#include "command/arguments.hpp"
#include "command/execution.hpp"

namespace unisono::command {

/// What --out asks for; one of these is set.
struct Targets {
  std::filesystem::path folder;   ///< folder for all of it
  std::filesystem::path array;    ///< .npy, for the only output
  std::filesystem::path archive;  ///< .npz, for all outputs by name
  std::filesystem::path picture;  ///< .png
};

/// Makes the folder. Throws UserError for a file that cannot hold so many outputs.
Targets targets_of(const RunOptions& options, std::size_t outputs);

/// Writes all outputs in their own dtypes (bf16, which NumPy lacks, as float32), and says which files were written.
std::vector<std::string> write_arrays(const Tensors& outputs, const Targets& targets);

}  // namespace unisono::command
