#pragma once
/// Compiles and runs networks, and reports what was fused.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/network/graph.hpp"
#include "unisono/tensor.hpp"

namespace unisono {

/// A region: one step of the executor.
struct RegionReport {
  enum class Kind : std::uint8_t {
    contraction,  ///< a contraction with an epilogue graph: one kernel
    epilogue,     ///< an epilogue graph over a tensor: one kernel
    single,       ///< one operator by itself, such as a pool
    free,         ///< an operator without cost: a view, or a concatenation that its producers write into
  };
  Kind kind = Kind::single;
  std::string name;                    ///< the name of the tensor that it computes
  std::string contraction;             ///< "conv2d (batch,3,64,64) -> 16, 3x3, pad 1"; empty if there is none
  std::vector<std::string> operators;  ///< the fused operators, in order
  std::string summed_filter;  ///< filter of a convolution of an upsampled image, whose taps may be added; else empty
  std::string epilogue;       ///< text form (unisono::print); empty for single and free
  std::vector<std::string> outputs;  ///< tensors written
  std::string note;                  ///< why the region ends here, or why the operator runs alone
};

struct FusionReport {
  std::vector<RegionReport> regions;  ///< in the order in which they run
  int operators = 0;                  ///< operators of the network
  int kernels = 0;                    ///< regions that are not free
};

/// Formats the report for people to read.
std::string to_string(const FusionReport& report);

// ---- Executable ----

/// The kernels that compute a network's attention on a GPU.
enum class AttentionKernels : std::uint8_t {
  automatic,  ///< by UNISONO_ATTENTION; else cuDNN's if it is found and was measured as faster, otherwise Unisono's
  own,        ///< Unisono's
  cudnn,  ///< cuDNN's fused attention (9.8 or later); Unisono's, with the reason, if cuDNN does not support the case
};

struct NetworkOptions {
  Device device = Device::cpu;
  int threads = 0;               ///< CPU threads, or threads of the GPU's compiler; 0: one per core
  Layout layout = Layout::nchw;  ///< memory order of inputs and outputs of rank 4; shapes of views follow it
  bool fuse = true;              ///< false, for comparison: every operator is a separate region
  bool reuse_memory = true;      ///< false: every tensor has its own memory, and nothing runs in place
  std::size_t cached_plans = 4;  ///< number of sets of input shapes that are kept ready, at least 1

  // Device::cpu

  /// Multiply in bf16, with sums in f32, where the model has a contraction's result in bf16 and the processor has
  /// instructions for it. Operands are rounded first. False: everything is multiplied in f32.
  bool short_products = false;

  // Device::cuda

  int device_index = 0;           ///< which GPU, in the driver's numbering
  DType precision = DType::bf16;  ///< bf16 or f16: tensors between kernels and weights of contractions; sums are f32
  bool tuned = true;              ///< prefer measured plans to the cost model's (unisono/tuning.hpp)
  int spare_sms = 0;              ///< CompileOptions::spare_sms of all tensor-core kernels
  bool watchdog = false;          ///< CompileOptions::watchdog of all tensor-core kernels
  bool strict = false;            ///< refuse operators without a kernel instead of computing them on the host
  /// Inputs that stay at one address from run to run: kernels read them in place if they lie as kernels need them,
  /// without a copy.
  std::set<std::string> weights = {};
  /// With `cudnn`, a network with attention is Unsupported if cuDNN is not found.
  AttentionKernels attention = AttentionKernels::automatic;
};

/// The memory plan for one set of input shapes. Sizes are in bytes.
struct MemoryReport {
  std::size_t arena = 0;          ///< the one allocation that holds all intermediates
  std::size_t without_reuse = 0;  ///< the sum of all intermediates
  std::size_t constants = 0;      ///< weights and other constants
  int in_place = 0;               ///< number of steps that overwrite an input
  int free_concats = 0;           ///< number of inputs that are written directly into their concatenation
  std::size_t device_peak = 0;    ///< on a GPU: the most that Unisono has held there at once in this process
};

/// Time of one step of a run.
struct StepTime {
  std::string name;  ///< RegionReport::name, or "input …", "output …", "to host …", "from host …": changes of layout
  std::string what;  ///< contraction or operator
  double milliseconds = 0;
  // On a GPU; `flop` also on the CPU, of contractions
  std::string how = {};  ///< LaunchReport::how
  double flop = 0;       ///< the operations of its contraction
  double bytes = 0;      ///< tensors that it reads and writes, each once; 0: unknown
  double floor_ms = 0;   ///< at the GPU's peaks: the longer of arithmetic and memory traffic; 0: unknown
};

class NetworkImpl;
class NetworkLaunchImpl;

/// A run of a network on a GPU with its tensors bound and a workspace, its own or the caller's: *one* run in flight.
/// Enqueue it on one stream at a time, and bind another launch for a concurrent stream. Two runs at once are undefined,
/// and an error if NetworkOptions::watchdog is set and the network has kernels whose CTAs wait for one another. Copies
/// refer to the same launch.
///
/// If its stream is being captured into a CUDA graph, its kernels become nodes of that graph, in their order, with the
/// current addresses; later rebinding does not affect them. The launch must outlive the graph. Replays count as its
/// runs: they must not overlap with one another or with any other use of the workspace.
class NetworkLaunch {
 public:
  explicit NetworkLaunch(std::shared_ptr<NetworkLaunchImpl> impl) : impl_(std::move(impl)) {}

  /// Returns the slot of an input or output. "input x" and "output x" tell two of the same name apart. Throws UserError
  /// for an unknown or ambiguous name.
  std::size_t slot(std::string_view name) const;

  /// Sets another address, in the GPU's memory, for a tensor of the same shape, dtype and strides. The driver is not
  /// asked whose memory it is. Throws UserError for an invalid slot, and for a null or misaligned address.
  void rebind(std::size_t slot, const void* data);

  /// Bytes of device memory that one run in flight needs, besides a table of its tensors that the launch holds.
  std::size_t workspace_bytes() const;

  /// Launches one CUDA graph, after a copy of the table if tensors were rebound. It allocates nothing (except during a
  /// capture), takes no lock and does not wait. A network with host steps is several graphs: the call waits for each
  /// but the last and computes on the host between them, where it throws as run() does; capturing it is Unsupported.
  /// Throws DeviceError, and UserError for the legacy default stream while another stream is captured.
  void enqueue(Stream stream) const;

 private:
  std::shared_ptr<NetworkLaunchImpl> impl_;  // and with it the network
};

/// A compiled network. Safe to run from several threads at once. Each set of input shapes is planned at its first run.
class NetworkExecutable {
 public:
  explicit NetworkExecutable(std::shared_ptr<NetworkImpl> impl) : impl_(std::move(impl)) {}

  /// Runs to completion. `inputs` and `outputs` are bound by name; outputs must have the shapes of output_shapes(). On
  /// a GPU tensors may be in its memory or the host's, and f32 ones may be given as bf16 or f16. `profile` receives one
  /// entry per step. Throws UserError for a missing or unknown name, a shape that does not fit, or a wrong dtype.
  void run(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
           std::vector<StepTime>* profile = nullptr) const;

  /// On a GPU: enqueues one run without waiting, except for work before host steps. All tensors must be in the GPU's
  /// memory and stay valid until the run ends. Runs on one stream share an arena, those on different streams do not;
  /// runs of a network with host steps take turns.
  ///
  /// If the stream is being captured into a CUDA graph, the network's kernels become nodes of it, with their own
  /// workspace, which the graph and its instances keep. The network must outlive them, and instances of one capture
  /// must not run at once. A network with host steps is then Unsupported. Throws as run() does; on the CPU UserError.
  void enqueue(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
               Stream stream) const;

  /// On a GPU: plans, compiles and checks once, for any number of runs with tensors of these shapes, dtypes and
  /// strides, all in the GPU's memory. If `workspace.memory` is null, the launch allocates workspace_bytes(). Throws as
  /// run() does; on the CPU UserError.
  NetworkLaunch bind(const std::map<std::string, ConstTensorView>& inputs,
                     const std::map<std::string, TensorView>& outputs, const WorkspaceMemory& workspace = {}) const;

  /// Returns the bytes of device memory that one run in flight needs for these input shapes; plans and compiles for
  /// them if necessary. Throws as memory() does; on the CPU UserError.
  std::size_t workspace_bytes(const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  /// Returns the output shapes for these input shapes, both in the order of NetworkOptions::layout.
  std::map<std::string, std::vector<std::int64_t>> output_shapes(
      const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  /// Returns the memory plan for these input shapes; makes it if necessary.
  MemoryReport memory(const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  /// On a GPU: returns the operators that run on the host for these input shapes, each with the reason
  /// (docs/networks-running.md#host-steps); plans and compiles for them if necessary. Empty on the CPU. Throws as
  /// memory() does.
  std::vector<std::string> host_steps(const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  const Network& network() const;
  const FusionReport& report() const;

 private:
  std::shared_ptr<NetworkImpl> impl_;
};

/// A kernel launch of a network on a GPU, or a host step.
struct LaunchReport {
  std::string name;                          ///< StepTime::name
  std::string what;                          ///< the contraction or operator, and which part of it
  std::string how;                           ///< the kernel's plan; or that it is a plain kernel or host step, and why
  double flop = 0, bytes = 0, floor_us = 0;  ///< as in StepTime
  double predicted_us = 0;                   ///< by the cost model; 0 without a plan
  bool on_host = false;                      ///< whether it is a host step
};

/// The launches of a network on a GPU for one set of input shapes.
struct DeviceReport {
  std::string device;       ///< "NVIDIA H200"
  std::string device_note;  ///< why the device is not a GPU of this machine; empty if it is
  FusionReport fusion;
  std::vector<LaunchReport> launches;  ///< in order: the nodes of the graph, and host steps between graphs
  MemoryReport memory;                 ///< without constants
  /// For people to read: what was decided for each region, and why: kernels, statistics from the producers of a tensor,
  /// pooled and upsampled stores, gathered operands, plain kernels.
  std::string decisions;
};
std::string to_string(const DeviceReport& report);

/// Plans for the GPU of options.device_index, or for an H200 if there is none, without compiling anything. `inputs` are
/// shapes as in NetworkExecutable::memory. Throws as compile() does.
DeviceReport explain_device(const Network& network, const NetworkOptions& options,
                            const std::map<std::string, std::vector<std::int64_t>>& inputs);

/// Compiles a network. Throws UserError for a network that is not well formed, and Unsupported, with reasons, for what
/// the device cannot run.
NetworkExecutable compile(Network network, const NetworkOptions& options = {});

/// Returns what compile() would fuse, without compiling anything.
FusionReport explain(const Network& network, const NetworkOptions& options = {});

}  // namespace unisono
