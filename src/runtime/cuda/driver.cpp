#include "runtime/cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

std::string missing_function(const char* name) {
  return fmt::format(
      "the CUDA driver (libcuda.so.1) has no function {}; Unisono needs the driver of CUDA 12.0 or later: update it",
      name);
}

std::atomic<bool> forked = false;

const char* why_not_started(CUresult result) {
  return result == CUDA_ERROR_NOT_INITIALIZED
             ? "was this process forked from one that had used CUDA? A forked process cannot use it: fork first"
             : "is there a GPU in this machine, and may this process use it?";
}

Driver load() {
  // never closed: the driver does not bear being unloaded
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    throw DeviceError(fmt::format("no CUDA driver: {}; install NVIDIA's driver, or use Device::cpu",
                                  reason ? reason : "libcuda.so.1 was not found"));
  }
  Driver d;
#define UNISONO_LOAD(function, parameters) \
  d.function = reinterpret_cast<decltype(d.function)>(::dlsym(library, #function));
#define UNISONO_NEED(function, parameters) \
  UNISONO_LOAD(function, parameters)       \
  if (d.function == nullptr) throw DeviceError(missing_function(#function));
  UNISONO_DRIVER_FUNCTIONS(UNISONO_NEED)
  UNISONO_NEWER_DRIVER_FUNCTIONS(UNISONO_LOAD)
#undef UNISONO_NEED
#undef UNISONO_LOAD
  if (const CUresult result = d.cuInit(0); result != CUDA_SUCCESS) {
    const char* name = nullptr;
    d.cuGetErrorName(result, &name);
    throw DeviceError(fmt::format("the CUDA driver does not start: cuInit returned {}; {}",
                                  name ? name : std::to_string(result), why_not_started(result)));
  }
  ::pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver instance = load();  // a failure is tried again at the next call
  return instance;
}

bool is_forked() { return forked.load(std::memory_order_relaxed); }

void check_not_forked() {
  if (is_forked())
    throw DeviceError(
        "CUDA cannot be used after fork: this process was forked from one that had used the GPU. Fork before the first "
        "use of the GPU, or start another program (exec, posix_spawn; in Python the start method 'spawn')");
}

std::string error_text(CUresult result) {
  const char *name = nullptr, *text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  return fmt::format("{}: {}", name ? name : fmt::format("error {}", static_cast<int>(result)),
                     text ? text : "unknown to this driver");
}

bool is_sticky(CUresult result) {
  static constexpr CUresult sticky[] = {CUDA_ERROR_ECC_UNCORRECTABLE,
                                        CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                        CUDA_ERROR_ILLEGAL_ADDRESS,
                                        CUDA_ERROR_LAUNCH_TIMEOUT,
                                        CUDA_ERROR_ASSERT,
                                        CUDA_ERROR_HARDWARE_STACK_ERROR,
                                        CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                        CUDA_ERROR_MISALIGNED_ADDRESS,
                                        CUDA_ERROR_INVALID_ADDRESS_SPACE,
                                        CUDA_ERROR_INVALID_PC,
                                        CUDA_ERROR_LAUNCH_FAILED,
                                        CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                        CUDA_ERROR_MPS_CLIENT_TERMINATED,
                                        CUDA_ERROR_UNKNOWN};
  return std::find(std::begin(sticky), std::end(sticky), result) != std::end(sticky);
}

namespace {

const char* advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return "; the GPU's context is gone (cudaDeviceReset, or the end of the process), and with it all that was "
             "compiled and allocated: end the process";
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
      return "; the MPS server has ended this process's use of the GPU, so that every further call in this process "
             "fails: end the process";
    case CUDA_ERROR_UNKNOWN:
      return "; the GPU or its driver may be lost, and further calls in this process may fail: end the process";
    default:
      return is_sticky(result)
                 ? "; a kernel that ran before has broken the GPU's context, so that every further call in this "
                   "process fails: end the process"
                 : "";
  }
}

}  // namespace

void check(CUresult result, std::string_view what) {
  if (result == CUDA_SUCCESS) return;
  throw DeviceError(fmt::format("{} failed with {}{}", what, error_text(result), advice(result)));
}

}  // namespace unisono::cuda
