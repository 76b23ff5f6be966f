#pragma once
/// The launches of a workspace as graphs, one for each segment, and the host steps between them.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "network/cuda/run/plan.hpp"
#include "runtime/cuda/replay.hpp"

namespace unisono::network::gpu {

/// What a run reads and writes, by position: inputs, then outputs. Shapes and strides in logical order.
using CallerViews = std::vector<ConstTensorView>;

/// One execution at a time.
class Segments {
 public:
  /// The launches of the plan, bound to memory, of which `staging` is that of host steps, and behind all of them those
  /// that are `following`, in their order. The plan must outlive this. Throws DeviceError, and UserError for tensors
  /// that the host has no memory for.
  Segments(const Plan& plan, const std::vector<Launch>& launches, std::byte* staging,
           const std::vector<Launch>& following = {});

  /// One execution: segment by segment. `callers`: where the caller's tensors are; kernels have their addresses from
  /// the table. Waits for what is on the stream ahead of each host step. What a host step throws ends it: nothing
  /// behind that step is launched, and the next execution begins anew.
  void replay(const CallerViews& callers, Stream stream) const;
  /// The same launch by launch, and waits: milliseconds of each launch and each host step, in their order.
  std::vector<double> time_each(const CallerViews& callers, Stream stream) const;
  /// Copies from the host to what the launches read; `from` has been read when this returns.
  void copy_ahead(void* to, const void* from, std::size_t bytes, Stream stream) const;
  /// Whether an execution would become part of a capture; false if there is nothing to do.
  bool is_captured(Stream stream) const;

 private:
  /// The tensors of a host step in the host's memory.
  struct OnHost {
    std::map<std::string, ConstTensorView> inputs;
    std::map<std::string, TensorView> outputs;
  };
  struct Free {
    void operator()(std::byte* p) const;
  };

  void place_on_host();
  TensorView on_host(const HostTensor& tensor) const;
  void run(std::size_t host_step, const CallerViews& callers, Stream stream) const;
  void give_callers(const CallerViews& callers, Stream stream) const;
  const cuda::Replay* any() const;  // null: there are none

  const Plan& plan_;
  std::byte* staging_;                                 // on the GPU: Staged
  std::unique_ptr<std::byte, Free> memory_;            // on the host: HostTensor::offset
  std::vector<OnHost> on_host_;                        // by host step
  std::vector<std::unique_ptr<cuda::Replay>> graphs_;  // by segment; null: it has no launches
  std::unique_ptr<cuda::Replay> following_;            // with host steps, whose results it may read; else null
};

}  // namespace unisono::network::gpu
