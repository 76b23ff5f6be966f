#pragma once
/// The last steps of compiling for a GPU: from a compiled kernel to an executable. No CUDA type stands here.

#include <memory>
#include <string>

#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "plan/device.hpp"
#include "runtime/common/executable_impl.hpp"
#include "unisono/executable.hpp"

namespace unisono::cuda {

/// What a planner needs to know of a GPU. Throws UserError for an index that does not exist, Unsupported (with the
/// GPU's name) for one that the kernels are not made for, DeviceError without a driver or if it fails.
plan::Device open_device(int index);

/// Memory of a GPU, for what has no CUDA runtime of its own to ask.
class DeviceBuffer {
 public:
  /// Copies `bytes` from `source`. Throws as open_device does.
  DeviceBuffer(int device_index, const void* source, std::size_t bytes);
  /// Zeroed. `what` is said when there is not enough.
  DeviceBuffer(int device_index, std::size_t bytes, const std::string& what);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() const;
  std::size_t bytes() const;
  /// Copies all of it from `source`, complete on return and no part of a capture.
  void upload(const void* source);
  /// Copies all of it to `target`, after everything on the default stream.
  void download(void* target) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The most that this process has held of a GPU's memory at once, by way of this library. Bytes.
std::size_t peak_memory(int device_index);

/// Loads the kernel. Throws DeviceError, UserError for a constant_filter of another shape or dtype, and InternalError
/// for a binary with waits of the assembler's between its matrix instructions: those of a kernel that came out so were
/// wrong.
std::shared_ptr<const ExecutableImpl> build(lower::Lowered lowered, jit::Binary binary);

}  // namespace unisono::cuda
