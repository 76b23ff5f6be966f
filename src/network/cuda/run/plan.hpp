#pragma once
/// Everything for one set of input shapes on a GPU.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "network/cuda/constants.hpp"
#include "network/cuda/step.hpp"
#include "network/regions.hpp"
#include "network/storage.hpp"
#include "unisono/network.hpp"

namespace unisono::network::gpu {

/// What every execution has in common; each has a Workspace of its own. Immutable once it is loaded.
struct Plan {
  std::vector<Sizes> inputs;  ///< logical
  /// By input, and behind these by output: kernels read or write it where the caller has it.
  std::vector<bool> direct;
  StoragePlan storage;
  LaunchSequence launches;
  /// Where the parts of a workspace begin, and all of it.
  std::size_t scratch_offset = 0, kept_offset = 0, staging_offset = 0, workspaces_offset = 0, bytes = 0;
  std::vector<std::size_t> workspace_offsets;  ///< by step, in the same: where its blocks meet
  std::vector<std::string> callers;            ///< names of inputs and outputs: "input x"
  std::set<std::size_t> host_only;             ///< positions of those that no kernel reads or writes
  int device_index = 0;
  std::string decisions;  ///< to_string(NetworkPlan)
};

/// Plans; nothing is compiled. `direct`: Plan::direct. Throws UserError for sizes that do not fit, Unsupported for
/// extents that kernels cannot count, and with NetworkOptions::strict for what no kernel serves.
std::shared_ptr<Plan> make_plan(const FusedNetwork& fused, DeviceConstants& constants, const plan::Device& device,
                                std::vector<Sizes> inputs, std::vector<bool> direct, const NetworkOptions& options);

/// explain_device(), and the bytes that its constants take on the GPU.
struct PlannedReport {
  DeviceReport report;
  std::size_t constants = 0;
  plan::Device device;  ///< that was planned for
};
/// For `device`, else for the GPU of the options, or an H200.
PlannedReport planned_report(const Network& network, const NetworkOptions& options,
                             const std::map<std::string, Sizes>& inputs,
                             const std::optional<plan::Device>& device = {});

/// What compiling a network for these inputs asks of the compiler, for any device; needs no GPU.
std::vector<jit::Request> requests(const Network& network, const NetworkOptions& options,
                                   const std::map<std::string, Sizes>& inputs, const plan::Device& device);

/// The regions of a network on the GPU of the options, or on an H200 where there is none.
FusedNetwork fuse_for_gpu(const Network& network, const NetworkOptions& options = {});
/// Names of the tensors of f32, inputs among them, that lie in the GPU's memory in 32 bits and not in 16, and of which
/// no reader has a copy in 16.
std::set<std::string> tensors_in_f32(const Network& network, const NetworkOptions& options);

/// What can be tuned of a network for these inputs: one problem for each launch that has a plan.
std::vector<lower::Problem> tuning_problems(const Network& network, const NetworkOptions& options,
                                            const std::map<std::string, Sizes>& inputs, const plan::Device& device);

/// Compiles all kernels, those that are not in the cache in parallel, and loads them; makes the networks of host steps
/// ready. Throws CompileError, DeviceError.
void load(Plan& plan, const NetworkOptions& options);

}  // namespace unisono::network::gpu
