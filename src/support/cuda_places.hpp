#pragma once
/// Where libraries of CUDA lie: in toolkits, and in NVIDIA's packages for Python, which PyTorch's wheels bring along.

#include <filesystem>
#include <string>
#include <vector>

namespace unisono::support {

/// The folders of a toolkit that may hold `part` ("lib", "include"): for libraries lib64 first, then `part`, then that
/// of each target ("targets/sbsa-linux/lib"). They need not exist.
std::vector<std::filesystem::path> toolkit_folders(const std::filesystem::path& toolkit, const std::string& part);

/// nvidia/*/lib in a folder of Python packages, in the order of their names: cu13 before cuda_nvrtc, which is CUDA 12.
std::vector<std::filesystem::path> nvidia_package_folders(const std::filesystem::path& packages);

/// The folder of Python packages that `binary` is installed in by a wheel: the one that holds unisono/lib/libunisono.so
/// or unisono/bin/unisono. Empty if it is installed otherwise.
std::filesystem::path packages_of(const std::filesystem::path& binary);

/// Remembers a folder of Python packages. The Python package names those of sys.path.
void add_python_packages(const std::filesystem::path& packages);

/// nvidia_package_folders() of those that were added, then of the one that this library is installed in.
std::vector<std::filesystem::path> python_library_folders();

}  // namespace unisono::support
