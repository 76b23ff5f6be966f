#pragma once
/// One GPU: its primary context, what a planner needs to know of it, and memory.

#include <atomic>
#include <cstddef>
#include <string>

#include "plan/device.hpp"
#include "runtime/cuda/driver.hpp"

namespace unisono::cuda {

/// Bytes of memory that Memory holds on one GPU.
struct Held {
  std::atomic<std::size_t> now = 0, peak = 0;
  void add(std::size_t bytes) {
    const std::size_t sum = now += bytes;
    for (std::size_t most = peak; sum > most && !peak.compare_exchange_weak(most, sum);) {
    }
  }
};

struct Gpu {
  int index = 0;
  CUdevice handle = 0;
  CUcontext context =
      nullptr;  ///< the primary one, retained: it is shared with the runtime API and with other libraries
  unsigned long long context_id = 0;  ///< another one if the context was reset and made anew
  CUstream helper = nullptr;          ///< for zeroing and uploads; does not wait for the default stream
  plan::Device device;                ///< as measured on this GPU
  mutable Held held;
};

/// The GPU of this index, opened at the first call and kept. Throws UserError for an index that does not exist,
/// Unsupported (with the GPU's name) below compute capability 7.5, DeviceError if the driver fails.
const Gpu& gpu(int index);

/// Throws DeviceError if nothing that was made on the GPU can be used any more: its context was reset since
/// (cudaDeviceReset), or this process was forked. Two calls of the driver: for where arguments are bound, not for a
/// launch.
void check_alive(const Gpu& gpu);

/// Makes the GPU's context current in this thread as long as it lives; does nothing if it is already. Throws
/// DeviceError, also in a forked process.
class Current {
 public:
  explicit Current(const Gpu& gpu) {
    check_not_forked();
    CUcontext current = nullptr;
    if (driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == gpu.context) return;
    check(driver().cuCtxPushCurrent_v2(gpu.context), "making the GPU's context current");
    pushed_ = true;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) driver().cuCtxPopCurrent_v2(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool pushed_ = false;
};

/// The same for destructors, which throw nothing: false where the context is gone, and with it whatever was to be
/// released. Nothing of the driver may be called then.
class Leaving {
 public:
  explicit Leaving(const Gpu& gpu);
  ~Leaving();
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;
  explicit operator bool() const { return pushed_; }

 private:
  bool pushed_ = false;
};

/// Allows allocations while some stream of this thread is being captured; what they do is no part of the capture.
class BesideCapture {
 public:
  BesideCapture() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCapture() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Device memory, aligned to 256 bytes at least.
class Memory {
 public:
  Memory() = default;
  /// Throws DeviceError that says how much was asked for, and for what.
  Memory(const Gpu& gpu, std::size_t bytes, const std::string& what);
  ~Memory() { release(); }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;

  /// Sets all of it to zero, or copies from `source` (host or device); complete on return.
  void zero();
  void upload(const void* source);

  CUdeviceptr address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void release();
  const Gpu* gpu_ = nullptr;
  CUdeviceptr address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace unisono::cuda
