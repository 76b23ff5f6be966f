#pragma once
/// The version of the GPU's driver, by which measured plans are kept and results are labelled.

#include <filesystem>
#include <optional>
#include <string>

namespace unisono::cuda {

/// The version in the text of the kernel's module: "580.95.05". Nothing if there is none, as where the driver's files
/// are not seen.
std::optional<std::string> kernel_module_version(const std::filesystem::path& file = "/proc/driver/nvidia/version");

/// "580.95.05, CUDA 13.0": the kernel's module, if it says so, and what CUDA version (13000) the user's half serves.
/// They may be of different releases (forward compatibility), and either may change a kernel's time.
std::string driver_text(const std::optional<std::string>& kernel_module, int cuda_version);

}  // namespace unisono::cuda
