#pragma once
/// A launch with its arguments in place, any of which can be changed.

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/common/executable_impl.hpp"
#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/slots.hpp"

namespace unisono::cuda {

/// Everything that a launch hands to its kernel but the workspace, and where each argument stands in it.
struct Prepared {
  families::ParameterBytes parameters;
  std::vector<Slot> slots;
  std::vector<Site> sites;
};

/// A kernel that is loaded, as the launches of it see it.
class LaunchedKernel {
 public:
  virtual ~LaunchedKernel() = default;
  virtual const Gpu& gpu() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  /// Zeroed. Throws DeviceError.
  virtual Memory make_workspace() const = 0;
  /// Writes the addresses of this workspace into the parameters.
  virtual void place(families::ParameterBytes& parameters, CUdeviceptr workspace) const = 0;
  /// One launch with these parameters. Throws DeviceError.
  virtual void launch(const families::ParameterBytes& parameters, CUstream stream) const = 0;
};

class BoundLaunch final : public LaunchImpl {
 public:
  /// The GPU's context is current. Throws as use() does.
  BoundLaunch(std::shared_ptr<const LaunchedKernel> kernel, Prepared prepared, const WorkspaceMemory& workspace);

  std::size_t slot(std::string_view name) const override { return find_slot(prepared_.slots, name); }
  void rebind(std::size_t slot, const void* data) override;
  void rebind(std::size_t slot, double value) override;
  void use(const WorkspaceMemory& workspace) override;
  std::size_t workspace_bytes() const override;
  void enqueue(Stream stream) const override;

 private:
  void take(const WorkspaceMemory& workspace);

  std::shared_ptr<const LaunchedKernel> kernel_;
  Prepared prepared_;
  Memory own_;                               ///< the workspace, unless it is the caller's
  std::span<const std::byte> callers_;       ///< the workspace, if it is
  mutable std::atomic<bool> moved_ = false;  ///< a tensor has another address, and was not compared with the others
};

}  // namespace unisono::cuda
