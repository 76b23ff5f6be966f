#include "runtime/cuda/memory_check.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::cuda {

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
  if (managed != 0) return check_range(gpu, p);
  if (type != CU_MEMORYTYPE_DEVICE) refuse(p, gpu, "which is page-locked host memory");
  int ordinal = 0;
  check(driver().cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), "asking for " + p.what);
  if (ordinal != gpu.handle) refuse(p, gpu, fmt::format("which is memory of GPU {}", ordinal));
  check_range(gpu, p);
}

}  // namespace

void check_range(const Gpu&, const NamedPointer& p) {
  const auto address = reinterpret_cast<CUdeviceptr>(p.data);
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  if (driver().cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS ||
      driver().cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS)
    return;
  if (address < start || address - start >= bytes) return;  // no range of this address
  if (const std::size_t left = bytes - (address - start); p.bytes > left)
    throw UserError(fmt::format(
        "{} was given the address {}, from which {} bytes of its allocation are left (it has {}, from {:#x} "
        "on); expected {} bytes, by its shape and strides",
        p.what, p.data, left, bytes, start, p.bytes));
}

void check_memory(const Gpu& gpu, std::span<const NamedPointer> pointers) {
  for (const NamedPointer& p : pointers) check_one(gpu, p);
}

}  // namespace unisono::cuda
