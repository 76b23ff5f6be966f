#pragma once
/// Launches as a CUDA graph, made by capturing a stream or node by node.

#include <functional>
#include <string>
#include <vector>

#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/launch_order.hpp"
#include "unisono/executable.hpp"

namespace unisono::cuda {

/// How a launch looks as a node; `parameters` and `attributes` live as long as the launch.
struct NodeForm {
  CUfunction function = nullptr;
  unsigned ctas = 1, threads = 1, shared_bytes = 0;
  const void* parameters = nullptr;
  std::vector<CUlaunchAttribute> attributes;  ///< also the programmatic dependence on the launch ahead
  /// Enqueues a launch that is no kernel of ours; nothing of the above is set then. It becomes a graph within the
  /// graph.
  std::function<void(CUstream)> captured = {};
};

/// While one lives, what this thread enqueues is not launched: it is written down, whatever the stream.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  const std::vector<NodeForm>& forms() const { return forms_; }

  /// True, and `form` is written down, if this thread is recording.
  template <class Form>
  static bool takes(const Form& form) {
    if (current_ == nullptr) return false;
    current_->forms_.push_back(form());
    return true;
  }

 private:
  static thread_local Recording* current_;
  std::vector<NodeForm> forms_;
};

/// Throws DeviceError. Another thread that waits for the whole context breaks a capture; it is then begun again, some
/// times.
CUgraph captured_graph(const Gpu& gpu, const std::vector<Launch>& launches);
/// The same of what is enqueued on the stream, which may be called several times.
CUgraph captured_graph(const Gpu& gpu, const std::function<void(CUstream)>& enqueue);

/// The same without a capture, so that nothing that other threads do disturbs it, and with branches: a node for each
/// launch, behind those that `after` names. A launch that waits for one other does so programmatically, if it may; one
/// that waits for several starts when all of them have ended. Throws DeviceError, also for a driver older than CUDA
/// 12.3, which has no programmatic dependence between nodes.
CUgraph graph_of_nodes(const Gpu& gpu, const std::vector<Launch>& launches, const LaunchOrder& after);

/// Whether graph_of_nodes can be called.
bool has_edges_with_data();

/// A line a node, each behind those that it waits for: CTAs, threads, shared memory, clusters, cooperation, and how
/// it depends on others: "; port 1 type 1" on that of the line above, "; after line 2, port 0 type 0" else. For tests;
/// needs a driver of CUDA 12.3.
std::string describe(CUgraph graph);

}  // namespace unisono::cuda
