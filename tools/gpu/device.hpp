#pragma once
/// The GPU under test: memory with guards, streams, graphs, and waits that end.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/cuda/gpu.hpp"

namespace unisono::gpu {

/// The GPU of `--device`; opened at the first call.
const cuda::Gpu& device();
void choose_device(int index);
int chosen_device();  ///< its number, which needs no GPU

/// Ends the process (exit code 3) with what was running if `stream` is not done within `seconds`: a hang is a failure
/// with a message. Throws DeviceError for an error of the GPU. The thread sleeps between queries after the first
/// thousand, unless it is to stay `awake`.
void wait(CUstream stream, const std::string& what, double seconds = 60, bool awake = false);

/// Device memory of `bytes` with 256 bytes of guard ahead and behind, all filled with 0xff at first.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  void* data() const { return reinterpret_cast<void*>(memory_.address() + guard_bytes); }
  CUdeviceptr address() const { return memory_.address() + guard_bytes; }
  std::size_t bytes() const { return bytes_; }

  void poison(CUstream stream = nullptr);
  void upload(const void* source);
  void download(void* target) const;
  std::vector<std::byte> contents() const;
  /// True if nothing was written beside the tensor.
  bool guards_hold() const;

 private:
  static constexpr std::size_t guard_bytes = 256;
  std::size_t bytes_ = 0;
  cuda::Memory memory_;
};

class TestStream {
 public:
  TestStream();
  ~TestStream();
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  CUstream get() const { return stream_; }
  operator void*() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

/// What `enqueue` puts on the stream, as a graph, with as many instances as are asked for. In the global mode of
/// capturing no thread may do what might synchronise.
class TestGraph {
 public:
  TestGraph(CUstream stream, const std::function<void()>& enqueue,
            CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL, std::size_t instances = 1);
  ~TestGraph();
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;
  void replay(CUstream stream, std::size_t instance = 0) const;
  std::size_t nodes() const;
  std::size_t kernel_nodes() const;

 private:
  CUgraph graph_ = nullptr;
  std::vector<CUgraphExec> instances_;
};

}  // namespace unisono::gpu
