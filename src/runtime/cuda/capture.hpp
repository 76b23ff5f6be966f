#pragma once
/// Streams that are being captured into a graph, and workspaces that belong to what was captured.

#include <functional>
#include <list>
#include <memory>

#include "runtime/cuda/gpu.hpp"

namespace unisono::cuda {

/// Whether the stream is being captured; an invalidated capture counts. Throws UserError for the legacy default stream
/// while another stream of the context is captured: CUDA then allows nothing on it.
bool is_capturing(CUstream stream);

/// Calls `gone` once the graph into which the stream is captured, all that was instantiated from it and their
/// executions are gone: in a thread of the driver, where it may throw nothing and call nothing of the driver. If this
/// throws it was called. Throws DeviceError.
void tie_to_graph(CUstream stream, std::function<void()> gone);

/// Workspaces of captured launches, one for each node. A workspace is tied to its graph by a user object: when the
/// graph, all that was instantiated from it and their executions are gone, the next capture gets the workspace.
/// Thread safe. No driver call is made from the user object's destructor, in which CUDA forbids them.
class CapturedWorkspaces {
 public:
  CapturedWorkspaces();
  /// Frees all memory, also that of graphs which still live.
  ~CapturedWorkspaces();
  CapturedWorkspaces(const CapturedWorkspaces&) = delete;
  CapturedWorkspaces& operator=(const CapturedWorkspaces&) = delete;

  /// A workspace for the next node of the stream's capture: a free one, or one that `make` makes. Throws DeviceError.
  CUdeviceptr take(CUstream stream, const std::function<Memory()>& make);

 private:
  struct Free;  // addresses, shared with the user objects, which may outlive this
  std::shared_ptr<Free> free_;
  std::list<Memory> all_;  // guarded by the mutex of Free
};

}  // namespace unisono::cuda
