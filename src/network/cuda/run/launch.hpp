#pragma once
/// A run of a network with its tensors in place.

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "network/cuda/run/captured_runs.hpp"
#include "network/executable_impl.hpp"

namespace unisono::network::gpu {

class CudaNetworkLaunch final : public NetworkLaunchImpl {
 public:
  /// Views of tensors on the device. `network` is what the plan was made for. Throws UserError for a workspace that
  /// cannot serve, and DeviceError.
  CudaNetworkLaunch(std::shared_ptr<const NetworkImpl> network, std::shared_ptr<const Plan> plan, CallerViews views,
                    const WorkspaceMemory& workspace);

  std::size_t slot(std::string_view name) const override;
  void rebind(std::size_t slot, const void* data) override;
  std::size_t workspace_bytes() const override { return plan_->bytes; }
  WorkspaceMemory memory() const override {
    return {.memory = workspace_.memory(), .bytes = plan_->bytes, .is_clear = true};
  }
  void enqueue(Stream stream) override;
  void follow(std::vector<Launch> launches) override { workspace_.follow(std::move(launches)); }
  std::size_t launches() const override { return plan_->launches.steps.size(); }
  const void* status() const override { return workspace_.status(plan_->launches); }
  void check_faults(Stream stream) override;

 private:
  std::shared_ptr<const NetworkImpl> network_;
  std::shared_ptr<const Plan> plan_;
  CallerViews views_;
  Workspace workspace_;
  CapturedRuns captured_;  // in the same memory, with tables of their own
};

/// The caller's memory for a plan, checked; null if it gives none.
void* checked_workspace(const Plan& plan, const WorkspaceMemory& given);

}  // namespace unisono::network::gpu
