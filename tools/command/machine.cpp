#include "command/machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "jit/places.hpp"
#include "support/environment.hpp"

namespace unisono::command {
namespace {

/// The value behind `key` and a colon in a file such as /proc/cpuinfo.
std::string field(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t first = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (first != std::string::npos) return line.substr(first);
  }
  return "";
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// In kB in /proc/meminfo.
std::uint64_t meminfo(std::string_view key) {
  return std::strtoull(field("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;
}

std::vector<std::string> cpu_features() {
  static constexpr std::array<std::string_view, 11> wanted{"sse4_2",   "avx",      "avx2",        "fma",
                                                           "f16c",     "avx512f",  "avx512_vnni", "avx512_bf16",
                                                           "avx_vnni", "amx_tile", "amx_bf16"};
  std::vector<std::string> found;
  std::istringstream flags(field("/proc/cpuinfo", "flags"));
  for (std::string flag; flags >> flag;) {
    for (const std::string_view w : wanted) {
      if (flag == w) found.push_back(flag);
    }
  }
  return found;
}

/// "max 100000" or "150000 100000" (quota and period in µs).
std::optional<double> cpu_quota() {
  std::istringstream line(first_line("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  if (line >> quota >> period && period > 0) return quota / period;
  return std::nullopt;
}

}  // namespace

CpuInfo cpu_info() {
  CpuInfo cpu;
  utsname system{};
  if (::uname(&system) == 0) cpu.architecture = system.machine;
  cpu.name = field("/proc/cpuinfo", "model name");
  if (cpu.name.empty()) cpu.name = "unknown";
  cpu.logical = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t set;
  CPU_ZERO(&set);
  cpu.usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : cpu.logical;
  cpu.quota = cpu_quota();
  cpu.features = cpu_features();
  return cpu;
}

MemoryInfo memory_info() {
  MemoryInfo memory{meminfo("MemTotal"), meminfo("MemAvailable"), std::nullopt};
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  char* end = nullptr;
  const std::uint64_t bytes = std::strtoull(limit.c_str(), &end, 10);
  if (end != limit.c_str() && bytes > 0) memory.limit = bytes;
  return memory;
}

FolderInfo cache_info() {
  FolderInfo folder;
  const auto path = support::cache_folder();
  if (!path) {
    folder.problem = "neither XDG_CACHE_HOME nor HOME is set";
    return folder;
  }
  folder.path = *path;
  std::error_code error;
  std::filesystem::create_directories(folder.path, error);
  const std::filesystem::path probe = folder.path / fmt::format(".probe-{}", ::getpid());
  {
    std::ofstream file(probe);
    file << "x" << std::flush;
    folder.writable = file.good();
  }
  if (folder.writable) {
    std::filesystem::remove(probe, error);
  } else {
    folder.problem = error ? error.message() : "a file cannot be written there";
  }
  return folder;
}

std::vector<KernelFolder> kernel_folders() {
  const jit::KernelFolders places = jit::kernel_folders_of({});
  std::vector<KernelFolder> folders;
  if (!places.cache.folder.empty()) folders.push_back({"cache", places.cache.folder, places.cache.refused});
  for (const jit::KernelFolder& p : places.packs) folders.push_back({"pack", p.folder, p.refused});
  return folders;
}

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace unisono::command
