#include "network/cuda/run/captured_runs.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/cuda/stream.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

// A graph cannot wait for the host
void refuse_capture(const Plan& plan) {
  const std::vector<std::string> unserved = plan.launches.unserved();
  if (unserved.empty()) return;
  throw Unsupported(
      fmt::format("a network that is computed in part on the host cannot be captured: {}{}; NetworkOptions::strict "
                  "refuses it when it is planned",
                  unserved[0], unserved.size() == 1 ? "" : fmt::format(" (and {} more)", unserved.size() - 1)));
}

}  // namespace

CapturedRuns::Run* CapturedRuns::free_run(const Plan& plan) {
  Run* found = nullptr;
  for (auto run = runs_.begin(); run != runs_.end();) {
    const bool wanted = run->plan.get() == &plan, is_free = run->is_free->load(std::memory_order_acquire);
    if (is_free && wanted && found == nullptr) found = &*run;
    run = is_free && !wanted ? runs_.erase(run) : std::next(run);
  }
  return found;
}

Workspace& CapturedRuns::take(std::shared_ptr<const Plan> plan, Stream stream, const Make& make) {
  refuse_capture(*plan);
  const std::lock_guard lock(mutex_);
  Run* run = free_run(*plan);
  if (run == nullptr) {
    auto made = make();
    runs_.push_back({std::move(plan), std::move(made), std::make_shared<std::atomic<bool>>(true)});
    run = &runs_.back();
  }
  run->is_free->store(false, std::memory_order_relaxed);
  cuda::when_graph_is_gone(run->plan->device_index, stream,
                           [is_free = run->is_free] { is_free->store(true, std::memory_order_release); });
  return *run->workspace;
}

}  // namespace unisono::network::gpu
