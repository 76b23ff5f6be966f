#include "network/cuda/run/workspace_pool.hpp"

#include <utility>

namespace unisono::network::gpu {

namespace {
constexpr std::size_t most_streams = 64;  // that have a workspace of a plan
}

std::unique_ptr<Workspace> WorkspacePool::borrow() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto w = std::move(idle_.back());
      idle_.pop_back();
      return w;
    }
  }
  return std::make_unique<Workspace>(*plan_, Workspace::Way::replayed);
}

void WorkspacePool::give_back(std::unique_ptr<Workspace> workspace) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(workspace));
}

Workspace& WorkspacePool::of_stream(unsigned long long number) {
  if (const auto found = by_stream_.find(number); found != by_stream_.end()) return *found->second;
  if (by_stream_.size() >= most_streams) by_stream_.clear();  // waits for the GPU
  return *by_stream_.emplace(number, std::make_unique<Workspace>(*plan_, Workspace::Way::replayed)).first->second;
}

}  // namespace unisono::network::gpu
