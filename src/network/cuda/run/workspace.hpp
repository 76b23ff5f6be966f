#pragma once
/// The memory of one execution of a network, and its launches.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "network/cuda/parameters.hpp"
#include "network/cuda/run/segments.hpp"
#include "runtime/cuda/stream.hpp"

namespace unisono::network::gpu {

/// Throws UserError, in the name of `what`, unless the address is a multiple of the element's size.
void check_element_alignment(const void* data, DType dtype, const std::string& what);

/// Whether kernels may read an input at this address, as they read tensors of the arena.
bool is_directly_aligned(const void* data);
/// Throws UserError, in the name of `what`, unless they may.
void check_direct_alignment(const void* data, const std::string& what);

/// One execution in flight. Kernels find the caller's tensors through a table in the GPU's memory, which is the
/// workspace's own; all other memory may be another's.
class Workspace {
 public:
  /// replayed: as graphs of its own, eagerly; recorded: kernel by kernel, into a graph that is captured.
  enum class Way : std::uint8_t { replayed, recorded };
  /// `memory`: Plan::bytes of another, which are zero or were left by an execution of the plan; null: its own. Throws
  /// DeviceError.
  /// The plan must outlive it.
  Workspace(const Plan& plan, Way way, void* memory = nullptr);

  /// One execution on the stream. Tensors of the host are copied to the device first, and back behind it by collect().
  void enqueue(const CallerViews& views, std::size_t inputs, Stream stream);
  /// Copies outputs to the host's memory, and waits.
  void collect(const CallerViews& views, std::size_t inputs, Stream stream);
  /// Waits. Throws UserError, in the name of the operator, for the first fault that kernels have recorded since this
  /// memory was cleared.
  void check_faults(const LaunchSequence& launches, Stream stream) const;
  /// They are cleared, in the order of the stream.
  void forget_faults(const LaunchSequence& launches, Stream stream) const;
  /// Where they are recorded; null: nowhere.
  const void* status(const LaunchSequence& launches) const;
  /// The same as enqueue with the kernels one by one: milliseconds of each, and of each host step, in their order.
  std::vector<double> enqueue_timed(const CallerViews& views, std::size_t inputs, Stream stream);

  /// The tensors of the executions that follow, all of which lie on the device. Launches are made anew where one that
  /// kernels read where it lies is another than before.
  void bind(const CallerViews& views, std::size_t inputs);
  /// Launches behind those of the plan, in their order, in every run that follows. Nothing is in flight.
  void follow(std::vector<Launch> launches);
  const std::vector<Launch>& following() const { return following_; }
  /// Another address for one of them; strides stay.
  void rebind(std::size_t position, const void* data);
  /// One execution with these tensors. Allocates nothing and waits for nothing, but at host steps.
  void replay(Stream stream);
  /// Adds the kernels to the graph that the stream is captured into, in their order; the table is written beside it.
  /// The plan has no host steps.
  void record(Stream stream);
  /// Whether what is replayed would be captured; false if there is nothing to launch.
  bool is_captured(Stream stream) const { return segments_ && segments_->is_captured(stream); }
  bool is_empty() const { return launches_.empty(); }

  Stream stream() const { return stream_->get(); }
  void* memory() const { return bases_.arena; }

 private:
  void make_launches();
  /// Makes the launches, unless there are those for where the inputs lie.
  void launch_given(Stream stream);
  /// Rows of the table that stay: the tensors of host steps.
  void place_host_tensors(const Plan& plan);
  /// Where the device finds the caller's tensors. The table is written when it is next read.
  void stage(const CallerViews& views, std::size_t inputs, Stream stream);
  /// The view where this workspace has the tensor: on the GPU, but for tensors of the host that only the host reads.
  ConstTensorView staged(const ConstTensorView& view, std::size_t position, bool input, Stream stream);
  void copy_there(const ConstTensorView& view, const ConstTensorView& there, Stream stream);
  std::size_t table_bytes() const { return callers_.size() * sizeof(CallerTensor); }
  void write_table(Stream stream);

  const Plan& plan_;
  Way way_;
  int device_index_;
  std::unique_ptr<cuda::DeviceBuffer> memory_, table_;
  Bases bases_;
  std::vector<std::string> names_;     ///< the caller's tensors', for messages
  std::set<std::size_t> host_only_;    ///< Plan::host_only
  CallerViews views_;                  ///< the caller's tensors, where this workspace has them
  std::vector<CallerTensor> callers_;  ///< as on the device; behind them the tensors of host steps
  bool written_ = false;               ///< the table holds them
  std::vector<std::unique_ptr<cuda::DeviceBuffer>> staging_;
  std::vector<bool> on_host_;
  std::optional<cuda::OwnStream> stream_;
  std::vector<Launch> launches_, following_;
  bool is_launched_ = false;          ///< there are those for bases_.given
  std::optional<Segments> segments_;  ///< none of one that is recorded
};

}  // namespace unisono::network::gpu
