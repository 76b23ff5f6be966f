#pragma once
/// Launches as one CUDA Graph, for those who know no driver. No CUDA type stands here.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/launch_order.hpp"
#include "unisono/executable.hpp"

namespace unisono::cuda {

/// How a graph of launches is made: in their order by capturing a stream, or node by node; or node by node with
/// branches.
enum class GraphBy : std::uint8_t { capture, line, nodes };
/// As UNISONO_GRAPH says: "capture", "line" or "nodes". If it says nothing, nodes, or capture where the driver is older
/// than CUDA 12.3 and makes no programmatic edges. Throws UserError for another word.
GraphBy graph_by();

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
  /// Nodes of the graph that are kernels; all others are graphs, of kernels that other libraries have.
  std::size_t kernel_nodes() const;
  /// A line a node, for tests (graph.hpp).
  std::string describe() const;
  /// Runs the launches one by one between events, and waits: milliseconds of each.
  std::vector<double> time_each(Stream stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono::cuda
