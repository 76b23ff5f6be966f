/// The CUDA driver is asked through dlopen: this program links no CUDA library, so that it starts on any machine.

#include <dlfcn.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "command/machine.hpp"
#include "jit/jit.hpp"
#include "support/cuda_places.hpp"
#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

// The part of the driver's C interface (cuda.h) that is used here. Its binary interface is stable.
using Result = int;
constexpr Result success = 0;
enum Attribute {
  clock_rate = 13,
  sm_count = 16,
  memory_clock_rate = 36,
  memory_bus_width = 37,
  l2_cache_size = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  shared_memory_of_a_cta = 97
};

struct Driver {
  Result (*init)(unsigned) = nullptr;
  Result (*driver_get_version)(int*) = nullptr;
  Result (*device_get_count)(int*) = nullptr;
  Result (*device_get)(int*, int) = nullptr;
  Result (*device_get_name)(char*, int, int) = nullptr;
  Result (*device_total_mem)(std::size_t*, int) = nullptr;
  Result (*device_get_attribute)(int*, int, int) = nullptr;
};

template <class Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool look_up_all(void* library, Driver& d) {
  return look_up(library, "cuInit", d.init) && look_up(library, "cuDriverGetVersion", d.driver_get_version) &&
         look_up(library, "cuDeviceGetCount", d.device_get_count) && look_up(library, "cuDeviceGet", d.device_get) &&
         look_up(library, "cuDeviceGetName", d.device_get_name) &&
         look_up(library, "cuDeviceTotalMem_v2", d.device_total_mem) &&
         look_up(library, "cuDeviceGetAttribute", d.device_get_attribute);
}

plan::DeviceAttributes ask_attributes(const Driver& driver, int device) {
  const auto ask = [&](Attribute which) {
    int value = 0;
    return driver.device_get_attribute(&value, which, device) == success ? value : 0;
  };
  char name[128] = "unknown";
  driver.device_get_name(name, sizeof name, device);
  return {.name = name,
          .major = ask(compute_capability_major),
          .minor = ask(compute_capability_minor),
          .sms = ask(sm_count),
          .shared_bytes = static_cast<std::size_t>(ask(shared_memory_of_a_cta)),
          .l2_bytes = static_cast<std::size_t>(ask(l2_cache_size)),
          .clock_khz = ask(clock_rate),
          .memory_clock_khz = ask(memory_clock_rate),
          .memory_bus_bits = ask(memory_bus_width)};
}

Gpu ask_device(const Driver& driver, int ordinal) {
  int device = 0;
  std::size_t memory = 0;
  if (driver.device_get(&device, ordinal) != success) return {plan::described({.name = "unknown"}), 0};
  driver.device_total_mem(&memory, device);
  return {plan::described(ask_attributes(driver, device)), memory};
}

void ask_driver(CudaInfo& info) {
  // never closed: the driver does not bear being unloaded
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    info.problem = "no CUDA driver (libcuda.so.1 was not found)";
    return;
  }
  Driver driver;
  if (!look_up_all(library, driver)) {
    info.problem = "libcuda.so.1 lacks functions that every driver since CUDA 3.2 has";
    return;
  }
  driver.driver_get_version(&info.driver);
  if (const Result result = driver.init(0); result != success) {
    info.problem = fmt::format("cuInit failed with error {}: a driver without a usable GPU", result);
    return;
  }
  int count = 0;
  if (driver.device_get_count(&count) != success || count == 0) {
    info.problem = "the CUDA driver sees no GPU";
    return;
  }
  for (int i = 0; i < count; ++i) info.gpus.push_back(ask_device(driver, i));
}

/// "#define CUDA_VERSION 13000" in the toolkit's cuda.h.
int toolkit_version(const std::filesystem::path& toolkit) {
  for (const std::filesystem::path& folder : support::toolkit_folders(toolkit, "include")) {
    std::ifstream file(folder / "cuda.h");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string define, name;
      int version = 0;
      if (words >> define >> name >> version && define == "#define" && name == "CUDA_VERSION") return version;
    }
  }
  return 0;
}

void look_for_toolkit(CudaInfo& info) {
  auto folders = support::executable_folders();
  folders.emplace_back("/usr/local/cuda/bin");
  for (const auto& folder : folders) {
    std::error_code error;
    const auto nvcc = std::filesystem::canonical(folder / "nvcc", error);
    if (error || !std::filesystem::is_regular_file(nvcc, error)) continue;
    info.toolkit = nvcc.parent_path().parent_path();
    info.toolkit_version = toolkit_version(info.toolkit);
    return;
  }
}

}  // namespace

CudaInfo cuda_info() {
  CudaInfo info;
  ask_driver(info);
  look_for_toolkit(info);
  try {
    info.nvrtc = jit::description_of({});
  } catch (const CompileError& error) {
    info.nvrtc_problem = error.what();
  }
  return info;
}

}  // namespace unisono::command
