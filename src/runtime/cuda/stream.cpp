#include "runtime/cuda/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/cuda/capture.hpp"
#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/memory_check.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

OwnStream::OwnStream(int device_index) : gpu_(gpu(device_index)) {
  const Current current(gpu_);
  CUstream stream = nullptr;
  check(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "making a stream");
  stream_ = stream;
}

OwnStream::~OwnStream() {
  if (const Leaving leaving(gpu_); leaving) driver().cuStreamDestroy_v2(static_cast<CUstream>(stream_));
}

Event::Event(int device_index) : gpu_(gpu(device_index)) {
  const Current current(gpu_);
  CUevent event = nullptr;
  check(driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
  event_ = event;
}

Event::~Event() {
  if (const Leaving leaving(gpu_); leaving) driver().cuEventDestroy_v2(static_cast<CUevent>(event_));
}

void Event::record(Stream stream) {
  const Current current(gpu_);
  check(driver().cuEventRecord(static_cast<CUevent>(event_), static_cast<CUstream>(stream)), "recording an event");
}

void Event::wait() const {
  const Current current(gpu_);
  check(driver().cuEventSynchronize(static_cast<CUevent>(event_)), "waiting for an event");
}

void Event::hold(Stream stream) const {
  const Current current(gpu_);
  check(driver().cuStreamWaitEvent(static_cast<CUstream>(stream), static_cast<CUevent>(event_), 0),
        "letting a stream wait for an event");
}

PinnedMemory::PinnedMemory(int device_index, std::size_t bytes) : gpu_(gpu(device_index)) {
  const Current current(gpu_);
  void* memory = nullptr;
  check(driver().cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE),
        fmt::format("allocating {} bytes of page-locked memory", bytes));
  memory_ = static_cast<std::byte*>(memory);
  std::fill_n(memory_, bytes, std::byte{0});
}

PinnedMemory::~PinnedMemory() {
  if (const Leaving leaving(gpu_); leaving) driver().cuMemFreeHost(memory_);
}

void copy(int device_index, void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Current current(gpu(device_index));
  check(driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                               static_cast<CUstream>(stream)),
        fmt::format("copying {} bytes", bytes));
}

void wait(int device_index, Stream stream) {
  const Current current(gpu(device_index));
  check(driver().cuStreamSynchronize(static_cast<CUstream>(stream)), "waiting for a network");
}

bool is_device_memory(int device_index, const void* memory) {
  const Current current(gpu(device_index));
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  unsigned type = 0;
  int owner = 0;
  if (driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) return false;
  if (type != CU_MEMORYTYPE_DEVICE) return false;
  check(driver().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), "asking for a pointer");
  if (owner != gpu(device_index).handle)
    throw UserError(
        fmt::format("a tensor is in the memory of GPU {}; the network runs on GPU {}", owner, device_index));
  return true;
}

void check_lies_on(int device_index, const void* memory, std::size_t bytes, const std::string& what) {
  const Gpu& g = gpu(device_index);
  const Current current(g);
  check_range(g, {memory, bytes, what});
}

void check_usable(int device_index) { check_alive(gpu(device_index)); }

bool is_captured(int device_index, Stream stream) {
  const Gpu& g = gpu(device_index);
  check_alive(g);
  const Current current(g);
  return is_capturing(static_cast<CUstream>(stream));
}

void when_graph_is_gone(int device_index, Stream stream, std::function<void()> gone) {
  const Current current(gpu(device_index));
  tie_to_graph(static_cast<CUstream>(stream), std::move(gone));
}

void clear(int device_index, void* memory, std::size_t bytes, Stream stream) {
  const Current current(gpu(device_index));
  check(driver().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(memory), 0, bytes, static_cast<CUstream>(stream)),
        "clearing a workspace");
}

unsigned long long stream_number(int device_index, Stream stream) {
  const Current current(gpu(device_index));
  unsigned long long number = 0;
  check(driver().cuStreamGetId(static_cast<CUstream>(stream), &number), "asking for the stream's number");
  return number;
}

}  // namespace unisono::cuda
