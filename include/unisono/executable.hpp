#pragma once
/// Compiling one contraction with its epilogue graph, and running it.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"
#include "unisono/plan.hpp"
#include "unisono/tensor.hpp"

namespace unisono {

enum class Device : std::uint8_t { cpu, cuda };

/// A CUDA stream: a cudaStream_t or CUstream. Null is the legacy default stream.
using Stream = void*;

struct CompileOptions {
  Device device = Device::cpu;
  int threads = 0;  ///< CPU threads of one run; 0: one per core
  /// Dtypes in memory, by name, of operands that the graph does not declare. They default to f32, and to i32 for the
  /// label of one_hot.
  std::map<std::string, DType> storage = {};
  /// The filter, or right operand, if it never changes. It is packed once at compile time, and Arguments::filter, or
  /// right, is ignored.
  std::optional<ConstTensorView> constant_filter = {};
  /// Likewise the second filter, or right operand, of a dual contraction (Arguments::right1). Both must be constant, or
  /// neither.
  std::optional<ConstTensorView> constant_right1 = {};
  /// Called after each pass with its name and the graph before and after it.
  std::function<void(const std::string& pass, const Graph& before, const Graph& after)> on_pass = {};

  // Device::cuda

  int device_index = 0;  ///< which GPU, in the driver's numbering
  /// Fixes parts of the plan, such as "tile=128x160 order=pingpong mode=resident"; the rest is chosen. docs/plan.md
  /// lists the keys.
  std::string plan = {};
  /// Fixes parts of the plan by key. A field may be fixed by one of the two.
  PlanOverride plan_override = {};
  /// If nothing is fixed, a plan that was measured for this problem (unisono/tuning.hpp) takes precedence over the cost
  /// model's.
  bool tuned = true;
  /// Names of scalar operands that each launch reads from the GPU's memory; the others are passed by value.
  std::set<std::string> device_scalars = {};
  /// Use the accurate transcendental functions of f32 outputs for 16-bit outputs, too.
  bool accurate = false;
  /// The number of SMs that tensor-core kernels leave free: for communication, another process under MPS, or a green
  /// context. The plan is made for a GPU with that many fewer SMs; each free SM may cost a whole cluster.
  int spare_sms = 0;
  /// For debugging: a kernel whose CTAs wait for one another ends with an error if its workspace is already in use, or
  /// if a wait takes some seconds.
  bool watchdog = false;
};

/// What one execution reads and writes. All memory belongs to the caller. On a GPU:
///
/// * Tensors are dense, except that the matrices of a batch, and rows of the image, of a single left matrix and of the
///   last [m,n] store, may be spaced, and that operands and stores may be declared strided.
/// * They lie in that GPU's memory, aligned to 16 bytes ([m,n], and what is multiplied) or to their element.
/// * Scalars are passed by value unless CompileOptions::device_scalars names them.
/// * No output shares memory with an input or another output.
struct Arguments {
  ConstTensorView image = {}, filter = {};               ///< a convolution's; a product leaves them empty
  ConstTensorView left = {}, right = {};                 ///< a product's, a filter gradient's; a convolution has none
  ConstTensorView right1 = {};                           ///< the second right operand, or filter, of acc1
  std::map<std::string, ConstTensorView> operands = {};  ///< tensors and scalars by pointer
  std::map<std::string, double> scalars = {};            ///< scalars by value
  std::map<std::string, TensorView> outputs = {};        ///< by the name of the store
  std::map<std::string, const void*> pointers = {};      ///< memory that user functions have captured, by name

  /// What this contraction multiplies, of shape_a() and shape_b(): left and right, or image and filter.
  ConstTensorView& a(const Contraction& contraction) { return has_left_and_right(contraction) ? left : image; }
  ConstTensorView& b(const Contraction& contraction) { return has_left_and_right(contraction) ? right : filter; }
  const ConstTensorView& a(const Contraction& contraction) const {
    return has_left_and_right(contraction) ? left : image;
  }
  const ConstTensorView& b(const Contraction& contraction) const {
    return has_left_and_right(contraction) ? right : filter;
  }
};

/// Device memory of the caller for an execution's workspace. It may be used by one execution at a time.
struct WorkspaceMemory {
  void* memory = nullptr;  ///< on the GPU, aligned to 256 bytes; null: Unisono allocates
  std::size_t bytes = 0;   ///< at least Executable::workspace_bytes(), or that of the network
  /// The stream on which the part that is needed is cleared. Launches must come after that.
  Stream stream = nullptr;
  /// The memory is zero, or as launches of the same executable left it. It is then not cleared.
  bool is_clear = false;
};

class ExecutableImpl;
class LaunchImpl;

/// A launch on a GPU with all arguments bound and a workspace, its own or the caller's: *one* execution in flight.
/// Enqueue it on one stream at a time, and bind another launch for a concurrent stream. Two executions at once are
/// undefined, and an error if CompileOptions::watchdog is set. Copies refer to the same launch.
///
/// If its stream is being captured into a CUDA graph, it becomes one kernel node with its current arguments. It must
/// outlive the graph. Replays count as its executions: they must not overlap with one another or with any other use of
/// the workspace.
///
/// Arguments are changed by slot, an index that slot() returns for a name:
///
///     const std::size_t image = launch.slot("image"), y = launch.slot("y"), gain = launch.slot("gain");
///     for (…) {
///       launch.rebind(image, in), launch.rebind(y, out), launch.rebind(gain, 0.5);
///       launch.enqueue(stream);
///     }
///
/// slot() and rebind() must not run concurrently with each other or with enqueue(). Several threads may call enqueue().
class Launch {
 public:
  explicit Launch(std::shared_ptr<LaunchImpl> impl) : impl_(std::move(impl)) {}

  /// Returns the slot of an argument: "image" and "filter" of a convolution, "left" and "right" of a product, "right1"
  /// if it is dual, or the name of an operand, scalar or output. "operand NAME" and "output NAME" tell two of the same
  /// name apart. Throws UserError for an unknown name, listing the known ones, and for an ambiguous one.
  std::size_t slot(std::string_view name) const;

  /// Sets another address for a tensor of the same shape, dtype and strides. Tensor maps are not encoded again, and the
  /// driver is not asked whose memory it is. Throws UserError if the slot is not a tensor's, and for a null or
  /// misaligned address. enqueue() throws it if an output then shares memory.
  void rebind(std::size_t slot, const void* data);

  /// Sets another value for a scalar that is passed by value. Throws UserError if the slot is not such a scalar's, and
  /// for a value that its dtype cannot represent.
  void rebind(std::size_t slot, double value);

  /// Replaces the workspace. Nothing may be in flight. Throws UserError for memory that is too small, misaligned or not
  /// the GPU's, and DeviceError.
  void use(const WorkspaceMemory& workspace);

  /// Bytes of device memory that one execution in flight needs; may be 0.
  std::size_t workspace_bytes() const;

  /// Calls cuLaunchKernelEx once, in the right context. It allocates nothing, takes no lock, and neither queries the
  /// device nor waits for it. Throws DeviceError with the driver's message, and UserError if after rebind() an output
  /// shares memory with another argument.
  void enqueue(Stream stream) const;

 private:
  std::shared_ptr<LaunchImpl> impl_;  // and with it the kernel
};

/// A compiled kernel. Immutable and safe to run from several threads at once.
class Executable {
 public:
  explicit Executable(std::shared_ptr<const ExecutableImpl> impl) : impl_(std::move(impl)) {}
  /// Runs to completion, on a GPU on the default stream. Throws UserError if an argument is missing, unknown, or of the
  /// wrong shape or dtype, and DeviceError if the device fails.
  void run(const Arguments& arguments) const;
  /// On a GPU: checks the arguments and launches with the stream's workspace, without waiting. A captured launch gets
  /// its own workspace, which the graph and its instances keep. The executable must outlive them. Throws as run() does;
  /// on the CPU UserError.
  void enqueue(const Arguments& arguments, Stream stream) const;
  /// On a GPU: checks the arguments once, for any number of launches. If `workspace.memory` is null, the launch
  /// allocates a workspace. Throws as run() does; on the CPU UserError.
  Launch bind(const Arguments& arguments, const WorkspaceMemory& workspace = {}) const;
  /// On a GPU: throws what run() would throw for these shapes, strides, dtypes and alignments, without touching memory
  /// or the device. On the CPU, which supports all strides, does nothing.
  void check_arguments(const Arguments& arguments) const;
  /// Bytes of device memory that one execution in flight needs; 0 on the CPU.
  std::size_t workspace_bytes() const;
  /// Describes the path that was taken, in a few lines: on a GPU the plan, registers, spills, and whether the kernel
  /// came from the cache.
  std::string describe() const;

 private:
  std::shared_ptr<const ExecutableImpl> impl_;
};

/// Compiles a contraction with its epilogue. Throws UserError for invalid input, Unsupported, with each candidate's
/// reason, if no kernel supports it, and for a GPU CompileError and DeviceError.
Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& options = {});

}  // namespace unisono
