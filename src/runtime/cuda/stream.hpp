#pragma once
/// Streams, copies and questions about memory, for those who know no driver. No CUDA type stands here.

#include <cstddef>
#include <functional>
#include <string>

#include "unisono/executable.hpp"

namespace unisono::cuda {

struct Gpu;

/// A stream of one's own that does not wait for the default one.
class OwnStream {
 public:
  explicit OwnStream(int device_index);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get() const { return stream_; }

 private:
  const Gpu& gpu_;
  Stream stream_ = nullptr;
};

/// A point in the order of a stream, at the beginning of it until it is recorded.
class Event {
 public:
  explicit Event(int device_index);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream);
  /// Waits for it. Throws DeviceError, also for what went wrong before.
  void wait() const;
  /// What follows on the stream waits for it.
  void hold(Stream stream) const;

 private:
  const Gpu& gpu_;
  void* event_ = nullptr;
};

/// Page-locked memory of the host, which kernels may write, too. Zeroed. Throws DeviceError.
class PinnedMemory {
 public:
  PinnedMemory(int device_index, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return memory_; }

 private:
  const Gpu& gpu_;
  std::byte* memory_ = nullptr;
};

/// Copies between host and device, or within either, in the order of the stream. A host's memory that is not
/// page-locked has been read when this returns.
void copy(int device_index, void* to, const void* from, std::size_t bytes, Stream stream);
/// Waits for everything on the stream. Throws DeviceError, also for what went wrong before.
void wait(int device_index, Stream stream);
/// Whether kernels of this GPU may use the memory: its own, or managed. Throws UserError for that of another GPU.
bool is_device_memory(int device_index, const void* memory);
/// Throws UserError unless all of the bytes are one allocation of this GPU or managed; `what` names them. Of memory
/// that is mapped page by page the reserved range of addresses counts.
void check_lies_on(int device_index, const void* memory, std::size_t bytes, const std::string& what);
/// Throws DeviceError if the GPU's context was reset or this process was forked.
void check_usable(int device_index);
/// Whether the stream is being captured. Throws UserError for the legacy default stream while another one is, and
/// DeviceError as check_usable does.
bool is_captured(int device_index, Stream stream);
/// Calls `gone` once the graph into which the stream is captured, all instances of it and their executions are gone: in
/// a thread of the driver, where it may throw nothing and call nothing of the driver. If this throws it was called.
void when_graph_is_gone(int device_index, Stream stream, std::function<void()> gone);
/// Zeroes memory in the order of the stream.
void clear(int device_index, void* memory, std::size_t bytes, Stream stream);
/// A number that no other stream ever has.
unsigned long long stream_number(int device_index, Stream stream);

}  // namespace unisono::cuda
