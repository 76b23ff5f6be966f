#pragma once
/// The workspaces of a plan that executions take turns with.

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "network/cuda/run/workspace.hpp"

namespace unisono::network::gpu {

class WorkspacePool {
 public:
  /// The plan is loaded.
  explicit WorkspacePool(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  const std::shared_ptr<const Plan>& plan() const { return plan_; }

  /// A workspace for one run; goes back when the run is over.
  std::unique_ptr<Workspace> borrow();
  void give_back(std::unique_ptr<Workspace> workspace);
  /// That of a stream, for as long as the pool lives; the caller holds `streams_mutex`.
  Workspace& of_stream(unsigned long long number);

  std::mutex streams_mutex;

 private:
  std::shared_ptr<const Plan> plan_;  // outlives the workspaces
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
  std::map<unsigned long long, std::unique_ptr<Workspace>> by_stream_;
};

}  // namespace unisono::network::gpu
