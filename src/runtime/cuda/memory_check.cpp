#include "runtime/cuda/memory_check.hpp"

#include <fmt/format.h>

#include "coda/error.hpp"

namespace coda::cuda {

namespace {

void refuse(const NamedPointer& p, const Gpu& gpu, const std::string& why) {
  throw UserError(
      fmt::format("{} was given the address {}, {}; expected memory of GPU {} ({}), such as cudaMalloc gives", p.what,
                  p.data, why, gpu.index, gpu.device.name));
}

void check_one(const Gpu& gpu, const NamedPointer& p) {
  const auto address = reinterpret_cast<CUdeviceptr>(p.data);
  CUmemorytype type{};
  const CUresult result = driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (result == CUDA_ERROR_INVALID_VALUE) refuse(p, gpu, "which the CUDA driver does not know: host memory?");
  check(result, "asking the driver for " + p.what);
  unsigned managed = 0;
  check(driver().cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address), "asking for " + p.what);
  if (managed != 0) return;
  if (type != CU_MEMORYTYPE_DEVICE) refuse(p, gpu, "which is page-locked host memory");
  int ordinal = 0;
  check(driver().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), "asking for " + p.what);
  if (ordinal != gpu.handle) refuse(p, gpu, fmt::format("which is memory of GPU {}", ordinal));
}

}  // namespace

void check_memory(const Gpu& gpu, std::span<const NamedPointer> pointers) {
  for (const NamedPointer& p : pointers) check_one(gpu, p);
}

}  // namespace coda::cuda
