#pragma once
/// Launches in a row as one CUDA Graph, and streams and copies for those who know no driver. No CUDA type stands here.

#include <cstddef>
#include <memory>
#include <vector>

#include "coda/executable.hpp"

namespace coda::cuda {

/// Launches, captured once in their order. Its replays count as executions of each, so they must not overlap.
class Replay {
 public:
  /// Throws DeviceError.
  Replay(int device_index, std::vector<Launch> launches);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// One launch of the graph.
  void enqueue(Stream stream) const;
  /// One launch of the graph between events, which it waits for: milliseconds.
  double time(Stream stream) const;
  /// Nodes of the graph that are kernels; there are no others.
  std::size_t kernel_nodes() const;
  /// Runs the launches one by one between events, and waits: milliseconds of each.
  std::vector<double> time_each(Stream stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stream of one's own that does not wait for the default one.
class OwnStream {
 public:
  explicit OwnStream(int device_index);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get() const { return stream_; }

 private:
  int device_index_;
  Stream stream_ = nullptr;
};

/// Copies between host and device, or within either, in the order of the stream. A host's memory that is not
/// page-locked has been read when this returns.
void copy(int device_index, void* to, const void* from, std::size_t bytes, Stream stream);
/// Waits for everything on the stream. Throws DeviceError, also for what went wrong before.
void wait(int device_index, Stream stream);
/// Whether kernels of this GPU may use the memory: its own, or managed. Throws UserError for that of another GPU.
bool is_device_memory(int device_index, const void* memory);
/// A number that no other stream ever has.
unsigned long long stream_number(int device_index, Stream stream);

}  // namespace coda::cuda
