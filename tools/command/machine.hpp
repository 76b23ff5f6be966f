#pragma once
/// What this machine has.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/device.hpp"

namespace unisono::command {

struct CpuInfo {
  std::string name, architecture;
  int logical = 0;                    ///< processors that the system has
  int usable = 0;                     ///< those that this process may run on
  std::optional<double> quota;        ///< CPU time a control group grants, in processors
  std::vector<std::string> features;  ///< those that matter here: "avx2", "avx512f", "amx_bf16", …
};

struct MemoryInfo {
  std::uint64_t bytes = 0, available = 0;
  std::optional<std::uint64_t> limit;  ///< most that the control group allows
};

struct Gpu {
  plan::Device device;       ///< as planners see it, but for what needs a context: clusters that fit
  std::uint64_t memory = 0;  ///< bytes
  int capability() const { return 10 * device.major + device.minor; }
};

struct CudaInfo {
  int driver = 0;       ///< highest CUDA version of the driver, such as 13000 for 13.0; 0 if there is no driver
  std::string problem;  ///< why there is no driver or no device; empty if there is one
  std::vector<Gpu> gpus;
  std::filesystem::path toolkit;  ///< the folder with bin/nvcc; empty if there is none
  int toolkit_version = 0;        ///< as `driver`, from its cuda.h; 0 if unknown
  std::string nvrtc;              ///< "NVRTC 13.0 (…/libnvrtc.so.13)"; empty if it was not found
  std::string nvrtc_problem;      ///< why not
};

struct FolderInfo {
  std::filesystem::path path;
  bool writable = false;
  std::string problem;  ///< if not
};

CpuInfo cpu_info();
MemoryInfo memory_info();

/// Asks the CUDA driver, if there is one, and looks for a toolkit: beside nvcc in PATH, then in /usr/local/cuda.
CudaInfo cuda_info();

/// The folder for what Unisono keeps between runs (support::cache_folder), tried by writing a file.
FolderInfo cache_info();

/// The folders of compiled kernels: the cache, then the packs, each with the reason why it is not used.
struct KernelFolder {
  std::string kind;  ///< "cache" or "pack"
  std::filesystem::path path;
  std::string refused;  ///< empty: it is used
};
std::vector<KernelFolder> kernel_folders();

/// "13.0" for 13000.
std::string cuda_version_text(int version);

}  // namespace unisono::command
