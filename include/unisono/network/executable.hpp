#pragma once
/// What the fuser makes of a network, and the executable that runs it with planned memory.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/network/graph.hpp"
#include "unisono/tensor.hpp"

namespace unisono {

/// One step of the executor as the fuser cut it.
struct RegionReport {
  enum class Kind : std::uint8_t {
    contraction,  ///< a contraction with an epilogue graph: one kernel
    epilogue,     ///< an epilogue graph over a tensor: one kernel
    single,       ///< one operator by itself, such as a pooling
    free,         ///< an operator that costs nothing: a view, or a concatenation that its producers write into
  };
  Kind kind = Kind::single;
  std::string name;                    ///< the tensor's that it makes
  std::string contraction;             ///< "conv2d (batch,3,64,64) -> 16, 3x3, pad 1"; empty if there is none
  std::vector<std::string> operators;  ///< what was fused, in order
  std::string summed_filter;  ///< a convolution's whose image is upsampled ahead of it, else empty: taps may be added
  std::string epilogue;       ///< text form (unisono::print); empty for single and free
  std::vector<std::string> outputs;  ///< tensors written
  std::string note;                  ///< why the region ends here, or why the operator stands alone
};

struct FusionReport {
  std::vector<RegionReport> regions;  ///< in the order in which they run
  int operators = 0;                  ///< operators of the network
  int kernels = 0;                    ///< regions that are not free
};

/// For people to read.
std::string to_string(const FusionReport& report);

// ---- Executable ----

/// Which kernels compute a network's attention on a GPU.
enum class AttentionKernels : std::uint8_t {
  automatic,  ///< as UNISONO_ATTENTION says; else cuDNN's where it was measured as faster and is found, elsewhere own
  own,        ///< Unisono's
  cudnn,      ///< cuDNN's fused attention, from version 9.8 on; Unisono's, and why, where it does not serve
};

struct NetworkOptions {
  Device device = Device::cpu;
  int threads = 0;               ///< CPU threads; 0: one a core. For a GPU: of the compiler
  Layout layout = Layout::nchw;  ///< memory order of inputs and outputs of rank 4 (shapes of views follow it)
  bool fuse = true;              ///< false: every operator is a region of its own (for comparison)
  bool reuse_memory = true;      ///< false: every tensor has memory of its own, nothing runs in place
  std::size_t cached_plans = 4;  ///< input shapes kept ready; at least 1

  // Device::cuda

  int device_index = 0;           ///< which GPU, as the driver counts them
  DType precision = DType::bf16;  ///< bf16 or f16: tensors between kernels and weights of contractions; sums are f32
  bool tuned = true;              ///< plans that were measured come before the cost model's (unisono/tuning.hpp)
  int spare_sms = 0;              ///< CompileOptions::spare_sms, for all kernels of the tensor cores
  bool watchdog = false;          ///< CompileOptions::watchdog, for the same
  bool strict = false;            ///< operators without a kernel are refused, and not computed on the host
  /// cudnn: a network with attention is Unsupported where no cuDNN is found
  AttentionKernels attention = AttentionKernels::automatic;
};

/// What the memory planner did for one set of input shapes. Bytes.
struct MemoryReport {
  std::size_t arena = 0;          ///< peak: the one allocation that holds all intermediates
  std::size_t without_reuse = 0;  ///< the sum of all intermediates
  std::size_t constants = 0;      ///< weights and other constants
  int in_place = 0;               ///< steps that overwrite an input that is no longer needed
  int free_concats = 0;           ///< inputs of concatenations that are written where they belong
  std::size_t device_peak = 0;    ///< on a GPU: the most that this process has held there at once, by way of Unisono
};

/// Time of one step of a run.
struct StepTime {
  std::string name;  ///< RegionReport::name, or "input …", "output …", "to host …", "from host …": changes of layout
  std::string what;  ///< contraction or operator
  double milliseconds = 0;
  // On a GPU
  std::string how = {};  ///< LaunchReport::how
  double flop = 0;       ///< its contraction's
  double bytes = 0;      ///< tensors that it reads and writes, each once; 0: not known
  double floor_ms = 0;   ///< what the GPU's peaks allow: the longer of arithmetic and memory; 0: not known
};

class NetworkImpl;
class NetworkLaunchImpl;

/// One run of a network on a GPU with its tensors in place, and a workspace of its own or the caller's: *one* run in
/// flight. Enqueue it on one stream at a time, and bind another for a stream beside it; two at once are undefined, and
/// an error where NetworkOptions::watchdog is set and the network has kernels whose CTAs wait for one another.
/// Copies are the same launch.
///
/// It may be enqueued while its stream is captured into a CUDA graph: its kernels then become nodes of that graph, in
/// their order, with the addresses of that moment, and whatever is bound later is no concern of theirs. The launch must
/// outlive the graph, whose replays count as its runs: instances of one capture may run one after the other, and beside
/// nothing else that uses the workspace.
class NetworkLaunch {
 public:
  explicit NetworkLaunch(std::shared_ptr<NetworkLaunchImpl> impl) : impl_(std::move(impl)) {}

  /// The input or output of this name. Throws UserError for a name that is none of them, or that an input and an output
  /// have alike: "input x" and "output x" tell these apart.
  std::size_t slot(std::string_view name) const;

  /// Another address for a tensor in the GPU's memory, whose shape, dtype and strides stay. The driver is not asked
  /// whose memory it is. Throws UserError for an index that is none, and for a null or misaligned address.
  void rebind(std::size_t slot, const void* data);

  /// Bytes of device memory that one run in flight needs, beside a table of its tensors that the launch always has.
  std::size_t workspace_bytes() const;

  /// One launch of a CUDA graph, behind a copy of the table if tensors were bound anew: no allocation, no lock, no
  /// synchronisation. Asks whether the stream is being captured; what a capture adds may allocate. A network with host
  /// steps is several graphs: the caller waits for each but the last, and computes on the host between them, which may
  /// throw what run() does there; captures of it are Unsupported. Throws DeviceError, and UserError for the legacy
  /// default stream while another stream is captured.
  void enqueue(Stream stream) const;

 private:
  std::shared_ptr<NetworkLaunchImpl> impl_;  // and with it the network
};

/// A compiled network. Runs from several threads at once; each set of input shapes is planned at its first run.
class NetworkExecutable {
 public:
  explicit NetworkExecutable(std::shared_ptr<NetworkImpl> impl) : impl_(std::move(impl)) {}

  /// Runs to completion. On a GPU tensors may be in its memory or in the host's, and those of f32 may be bf16 or f16 as
  /// well. `inputs` and `outputs` are bound by name; the output shapes must be those of output_shapes().
  /// If `profile` is given it receives one entry a step. Throws UserError for a missing or unknown name, a shape that
  /// does not fit, or another dtype than the network's.
  void run(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
           std::vector<StepTime>* profile = nullptr) const;

  /// On a GPU: puts one run on the stream and does not wait, but for what is ahead of host steps, if there are any. All
  /// tensors are in the GPU's memory, and stay until the run is over. Runs on one stream share an arena, those on
  /// different streams do not; those of a network with host steps take turns. While the stream is captured
  /// into a CUDA graph the network's kernels become nodes of it, with a workspace of their own, which the graph and its
  /// instances keep as long as they live; the network must outlive them, and instances of one capture must not run at
  /// once; a network with host steps is Unsupported there. Throws as run does; on the CPU UserError.
  void enqueue(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
               Stream stream) const;

  /// On a GPU: plans, compiles and checks once, for any number of runs with tensors of these shapes, dtypes and
  /// strides, all in the GPU's memory. `workspace`: the caller's, of workspace_bytes(); if its memory is null the
  /// launch allocates one. Throws as run does; on the CPU UserError.
  NetworkLaunch bind(const std::map<std::string, ConstTensorView>& inputs,
                     const std::map<std::string, TensorView>& outputs, const WorkspaceMemory& workspace = {}) const;

  /// Bytes of device memory that one run in flight needs for inputs of these shapes; plans and compiles for them, if
  /// that was not done. Throws as memory() does; on the CPU UserError.
  std::size_t workspace_bytes(const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  /// Shapes of the outputs for inputs of these shapes (both in the order of NetworkOptions::layout).
  std::map<std::string, std::vector<std::int64_t>> output_shapes(
      const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  /// Plans for these input shapes, if that was not done, and says what memory they take.
  MemoryReport memory(const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  /// On a GPU: the operators that no kernel serves for inputs of these shapes, each with the reason; they run on the
  /// host, between launches (docs/networks-running.md#host-steps). Plans and compiles for them, if that was not done. On the
  /// CPU there are none. Throws as memory() does.
  std::vector<std::string> host_steps(const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  const Network& network() const;
  const FusionReport& report() const;

 private:
  std::shared_ptr<NetworkImpl> impl_;
};

/// One kernel launch of a network on a GPU, or what the host computes between two.
struct LaunchReport {
  std::string name;                          ///< StepTime::name
  std::string what;                          ///< the contraction or operator, and which part of it
  std::string how;                           ///< the kernel's plan; or that it is a plain one, or a host step, and why
  double flop = 0, bytes = 0, floor_us = 0;  ///< as in StepTime
  double predicted_us = 0;                   ///< by the cost model; 0: it has no plan
  bool on_host = false;                      ///< it is a host step
};

/// What runs on a GPU for one set of input shapes.
struct DeviceReport {
  std::string device;       ///< "NVIDIA H200"
  std::string device_note;  ///< why it is not the GPU of this machine; empty if it is
  FusionReport fusion;
  std::vector<LaunchReport> launches;  ///< in order: the nodes of the graph, and host steps between graphs
  MemoryReport memory;                 ///< without constants
  /// For people to read: what was decided for each region ahead of its launches, and why not otherwise. Kernels,
  /// statistics from the producers of a tensor, pooled and upsampled stores, gathered operands, plain kernels.
  std::string decisions;
};
std::string to_string(const DeviceReport& report);

/// Plans for the GPU of options.device_index, or for an H200 where there is none, without compiling anything. Shapes
/// are those of NetworkExecutable::memory. Throws as compile does.
DeviceReport explain_device(const Network& network, const NetworkOptions& options,
                            const std::map<std::string, std::vector<std::int64_t>>& inputs);

/// Fuses a network and makes it ready to run. Throws UserError for a network that is not well formed and Unsupported
/// (with reasons) for what the device cannot run.
NetworkExecutable compile(Network network, const NetworkOptions& options = {});

/// What compile would fuse, without compiling anything.
FusionReport explain(const Network& network, const NetworkOptions& options = {});

}  // namespace unisono
