#pragma once
/// An executable of the CUDA backend, its launches and its workspaces.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "families/interface/family.hpp"
#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "runtime/common/executable_impl.hpp"
#include "runtime/cuda/arguments.hpp"
#include "runtime/cuda/capture.hpp"
#include "runtime/cuda/host_library.hpp"
#include "runtime/cuda/kernel.hpp"
#include "runtime/cuda/launch.hpp"

namespace unisono::cuda {

class CudaExecutable final : public ExecutableImpl,
                             public LaunchedKernel,
                             public std::enable_shared_from_this<CudaExecutable> {
 public:
  CudaExecutable(const Gpu& gpu, lower::Lowered lowered, jit::Binary binary);

  void run(const Arguments& arguments) const override;
  void enqueue(const Arguments& arguments, Stream stream) const override;
  std::shared_ptr<LaunchImpl> bind(const Arguments& arguments, const WorkspaceMemory& workspace) const override;
  void check_arguments(const Arguments& arguments) const override;
  std::size_t workspace_bytes() const override { return lowered_.plan().workspace_bytes; }
  std::string describe() const override;

  const Gpu& gpu() const override { return gpu_; }
  Memory make_workspace() const override;
  void place(families::ParameterBytes& parameters, CUdeviceptr workspace) const override;
  void launch(const families::ParameterBytes& parameters, CUstream stream) const override;

 private:
  const families::Family& family() const { return *lowered_.plan().family; }
  families::Launched launched() const { return {lowered_.problem.task, lowered_.epilogue(), lowered_.kernel}; }
  void load_binary();
  void launch_library(const families::ParameterBytes& parameters, CUstream stream) const;
  Prepared prepare(const Arguments& arguments) const;
  /// Takes the fields out of `bound`.
  families::Parameter parameter_of(BoundArguments& bound) const;
  /// The stream's workspace, for enqueue(); the caller holds the pool's lock.
  const Memory& workspace_of(CUstream stream) const;
  Memory uploaded(const ConstTensorView& filter, const std::string& what) const;

  const Gpu& gpu_;
  lower::Lowered lowered_;
  jit::Binary binary_;                                ///< without the cubin
  const families::ParameterBytes constants_;          ///< parameters that all launches share
  const std::vector<families::Site> workspace_maps_;  ///< Family::workspace_maps
  Signature signature_;
  std::optional<Kernel> kernel_;                ///< that the driver launches,
  std::shared_ptr<const HostLibrary> library_;  ///< or a library launches itself
  Memory filter_, filter1_;                     ///< constant_filter and constant_right1
  mutable std::mutex pool_mutex_;
  mutable std::map<unsigned long long, Memory> pool_;  ///< by the stream's number, which is never used again
  mutable CapturedWorkspaces captured_;                ///< workspaces that nodes of captured graphs hold
};

}  // namespace unisono::cuda
