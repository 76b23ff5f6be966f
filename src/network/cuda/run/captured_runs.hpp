#pragma once
/// Runs of a network that became nodes of graphs.

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "network/cuda/run/workspace.hpp"

namespace unisono::network::gpu {

/// A workspace for each capture, tied to its graph: when the graph, all that was instantiated from it and their
/// executions are gone, the next capture of the same plan gets it, and one of another plan frees it. Thread safe.
/// Everything is freed when this goes, also what graphs that still live would need.
class CapturedRuns {
 public:
  using Make = std::function<std::unique_ptr<Workspace>()>;
  /// For the capture on the stream: a workspace that is free, or one that `make` makes. Throws DeviceError, and
  /// Unsupported for a plan with host steps, before anything is recorded.
  Workspace& take(std::shared_ptr<const Plan> plan, Stream stream, const Make& make);

 private:
  struct Run {
    std::shared_ptr<const Plan> plan;  // outlives the workspace
    std::unique_ptr<Workspace> workspace;
    std::shared_ptr<std::atomic<bool>> is_free;
  };
  Run* free_run(const Plan& plan);

  std::mutex mutex_;
  std::list<Run> runs_;
};

}  // namespace unisono::network::gpu
