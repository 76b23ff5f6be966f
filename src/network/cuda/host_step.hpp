#pragma once
/// What a network on a GPU computes on the host, between launches.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "network/sizes.hpp"
#include "unisono/network.hpp"

namespace unisono::network::gpu {

/// What reports say of a launch, or of a host step.
struct StepText {
  std::string name;  ///< the tensor that its region makes, or "input …", "output …", "to host …", "from host …"
  std::string what;  ///< the contraction or operator, and which part of it
  std::string how;   ///< the kernel: a plan, or a plain kernel and why; of a host step why there is none
  double flop = 0, bytes = 0;  ///< StepTime
  double predicted_us = 0;     ///< by the cost model; 0: it has no plan
  bool on_host = false;        ///< it is a host step
};

/// Where kernels write what a host step reads, and read what it has made: f32.
struct Staged {
  std::size_t offset = 0;    ///< bytes, in the staging memory of a workspace
  std::size_t position = 0;  ///< its row of the table of the caller's tensors
};

/// A tensor that a host step reads or makes. On the host it is dense, and in the order of memory that the CPU's
/// networks use inside, so that these read and write it where it is.
struct HostTensor {
  std::string name;      ///< among the inputs, or outputs, of HostStep::network
  Sizes shape, strides;  ///< logical; elements
  DType type{};
  std::size_t bytes = 0;   ///< 0: nothing of it is read or made
  std::size_t offset = 0;  ///< in the host's memory of a workspace; the same in all steps that have the tensor
  std::optional<Staged> staged = {};      ///< kernels make what is read, or read what is made
  std::vector<std::size_t> callers = {};  ///< positions of the caller's tensors that it is

  /// Whether it is copied between the host and the GPU: else other steps make or read it.
  bool crosses() const { return staged || !callers.empty(); }
};

/// Operators without a kernel, as a network of the CPU's. The host waits for what is ahead of it, copies the inputs
/// from the GPU, runs, and copies the outputs back; those of the caller's behind the last launch, when nothing is left
/// to be read of the caller's tensors.
struct HostStep : StepText {
  HostStep() { on_host = true; }

  std::vector<HostTensor> inputs, outputs;
  std::vector<std::string> unserved;  ///< its operators without a kernel, and why: "top_k 'n7': no kernel …"
  Network network;                    ///< its extents are fixed; shares the constants

  using Run = std::function<void(const std::map<std::string, ConstTensorView>& inputs,
                                 const std::map<std::string, TensorView>& outputs)>;
  Run run = {};  ///< the network's, once the plan is loaded; safe from several threads
};

}  // namespace unisono::network::gpu
