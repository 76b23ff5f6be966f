#pragma once
/// Launches as one CUDA Graph, and streams and copies for those who know no driver. No CUDA type stands here.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/executable.hpp"

namespace unisono::cuda {

struct Gpu;

/// How a graph of launches is made: in their order by capturing a stream, or node by node; or node by node with
/// branches.
enum class GraphBy : std::uint8_t { capture, line, nodes };
/// As UNISONO_GRAPH says: "capture", "line" or "nodes". If it says nothing, nodes, or capture where the driver is older
/// than CUDA 12.3 and makes no programmatic edges. Throws UserError for another word.
GraphBy graph_by();

/// By launch: those ahead of it, by index, that it waits for. What these wait for it waits for, too.
using LaunchOrder = std::vector<std::vector<std::size_t>>;

/// Launches as a graph. Its replays count as executions of each, so they must not overlap.
class Replay {
 public:
  /// `names`, if given, are those of the launches, for profilers. Launches run in their order, or with GraphBy::nodes
  /// in any that `after` allows, if it is given. Throws DeviceError.
  Replay(int device_index, std::vector<Launch> launches, std::vector<std::string> names = {}, GraphBy by = graph_by(),
         LaunchOrder after = {});
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// One launch of the graph. Neither this nor the next two allocate or lock.
  void enqueue(Stream stream) const;
  /// Copies from the host to what the next launch of the graph reads; `from` has been read when this returns.
  void copy_ahead(void* to, const void* from, std::size_t bytes, Stream stream) const;
  /// As the function of this name below, without asking whether the context was reset.
  bool is_captured(Stream stream) const;
  /// So many launches of the graph behind one that does not count, all enqueued before the first is over, so that what
  /// holds the host up does not count: milliseconds of each, by events. Waits.
  std::vector<double> times(Stream stream, int count) const;
  /// Nodes of the graph that are kernels; there are no others.
  std::size_t kernel_nodes() const;
  /// A line a node, for tests (graph.hpp).
  std::string describe() const;
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
  const Gpu& gpu_;
  Stream stream_ = nullptr;
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
