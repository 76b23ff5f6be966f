#pragma once
/// Everything for one set of input shapes on a GPU, and the memory of its executions.

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "network/cuda/constants.hpp"
#include "network/cuda/step.hpp"
#include "network/cuda/workspace.hpp"
#include "network/storage.hpp"

namespace unisono::network::gpu {

/// Immutable but for the workspaces.
struct Plan {
  std::vector<Sizes> inputs;  ///< logical
  StoragePlan storage;
  LaunchSequence launches;
  std::size_t scratch_offset = 0, kept_offset = 0, workspaces_offset = 0, bytes = 0;  ///< of a workspace's memory
  std::vector<std::size_t> workspace_offsets;  ///< by step, in the same: where its blocks meet
  std::vector<std::string> callers;            ///< names of inputs and outputs: "input x"
  int device_index = 0;

  /// A workspace for one run; goes back when the run is over.
  std::unique_ptr<Workspace> borrow() const;
  void give_back(std::unique_ptr<Workspace> workspace) const;
  /// That of a stream, for as long as the plan lives; the caller holds `streams_mutex`.
  Workspace& of_stream(unsigned long long number) const;

  mutable std::mutex streams_mutex;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
  mutable std::map<unsigned long long, std::unique_ptr<Workspace>> by_stream_;
};

/// Plans; nothing is compiled. Throws UserError for sizes that do not fit, Unsupported for what no kernel serves.
std::shared_ptr<Plan> make_plan(const FusedNetwork& fused, DeviceConstants& constants, const plan::Device& device,
                                std::vector<Sizes> inputs, const NetworkOptions& options);

/// What compiling a network for these inputs asks of the compiler, for any device; needs no GPU.
std::vector<jit::Request> requests(const Network& network, const NetworkOptions& options,
                                   const std::map<std::string, Sizes>& inputs, const plan::Device& device);

/// The regions of a network on a GPU.
FusedNetwork fuse_for_gpu(const Network& network);

/// What can be tuned of a network for these inputs: one problem for each launch that has a plan.
std::vector<lower::Problem> tuning_problems(const Network& network, const NetworkOptions& options,
                                            const std::map<std::string, Sizes>& inputs, const plan::Device& device);

/// Compiles all kernels, those that are not in the cache in parallel, and loads them. Throws CompileError, DeviceError.
void load(Plan& plan, const NetworkOptions& options);

}  // namespace unisono::network::gpu
