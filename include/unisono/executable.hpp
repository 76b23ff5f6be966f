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
  int threads = 0;  ///< CPU threads; 0: one a core
  /// Storage dtypes of operands that the graph does not declare (by name). Absent: f32, and i32 for the label of
  /// one_hot.
  std::map<std::string, DType> storage = {};
  /// The filter, or right operand, if it never changes: packed once at compile time; Arguments::filter, or right, is
  /// then ignored.
  std::optional<ConstTensorView> constant_filter = {};
  /// The same of the second filter, or right operand, of a dual one, Arguments::right1. Both are constant, or neither.
  std::optional<ConstTensorView> constant_right1 = {};
  /// Called with the name of each pass and the graph after it.
  std::function<void(const std::string& pass, const Graph& before, const Graph& after)> on_pass = {};

  // Device::cuda

  int device_index = 0;  ///< which GPU, as the driver counts them
  /// Parts of the plan that the caller fixes, such as "tile=128x160 order=pingpong mode=resident"; the rest is chosen.
  /// docs/cuda-backend.md lists the keys.
  std::string plan = {};
  /// The same by key. A field is fixed by one of the two.
  PlanOverride plan_override = {};
  /// Where nothing of the plan is fixed: one that was measured for this problem comes before the cost model's
  /// (unisono/tuning.hpp).
  bool tuned = true;
  /// Scalar operands that are bound as tensors in the GPU's memory.
  std::set<std::string> device_scalars = {};
  /// Transcendental functions as accurate as for f32 outputs, also where the output has 16 bits.
  bool accurate = false;
  /// SMs that kernels of the tensor cores leave to others: communication, another process under MPS, a green context.
  /// The plan is made for a GPU that has so many fewer; each of the others' SMs may cost a whole cluster.
  int spare_sms = 0;
  /// To find errors of one's own: a kernel whose CTAs wait for one another ends with an error where its workspace is
  /// in use already, and where a wait lasts some seconds.
  bool watchdog = false;
};

/// What one execution reads and writes. All memory belongs to the caller. On a GPU all tensors are dense (matrices
/// left, and right, of a batch may lie apart, and rows of the image, of a single left matrix and of the last [m,n]
/// store), in that GPU's memory, aligned to 16 bytes ([m,n] and what is multiplied) or to their element; scalars are
/// given by value unless CompileOptions::device_scalars names them; no output shares memory with anything else.
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

/// Device memory of the caller in which an execution's CTAs meet, in place of an allocation of Unisono's own.
/// One execution at a time may use it.
struct WorkspaceMemory {
  void* memory = nullptr;  ///< on the GPU, aligned to 256 bytes; null: Unisono allocates
  std::size_t bytes = 0;   ///< at least Executable::workspace_bytes(), or that of the network
  /// Where it is cleared before its first use: what is enqueued must come behind that. Only the part that is needed.
  Stream stream = nullptr;
  /// It is zero already, or what launches of the same executable left there: it is not cleared.
  bool is_clear = false;
};

class ExecutableImpl;
class LaunchImpl;

/// An execution with all its arguments in place, on a GPU, and a workspace of its own or the caller's: *one* execution
/// in flight. Enqueue it on one stream at a time, and bind another for a stream beside it; two at once are undefined,
/// and an error where CompileOptions::watchdog is set. Copies are the same launch.
///
/// It may be enqueued while its stream is captured into a CUDA graph, and is then one kernel node with the arguments
/// of that moment. It must outlive the graph, whose replays count as its executions: instances of one capture may run
/// one after the other, and beside nothing else that uses the workspace.
///
/// Arguments are changed by slot: an index that stands for a name, asked for once.
///
///     const std::size_t image = launch.slot("image"), y = launch.slot("y"), gain = launch.slot("gain");
///     for (…) {
///       launch.rebind(image, in), launch.rebind(y, out), launch.rebind(gain, 0.5);
///       launch.enqueue(stream);
///     }
///
/// slot() and rebind() may not run beside one another or beside enqueue(); enqueue() may run from several threads.
class Launch {
 public:
  explicit Launch(std::shared_ptr<LaunchImpl> impl) : impl_(std::move(impl)) {}

  /// The argument of this name: "image" and "filter" of a convolution, "left" and "right" of a product, and "right1" of
  /// either if it is dual; an operand, a scalar, an output. Others of the same name are asked for as "operand NAME" or
  /// "output NAME". Throws UserError for a name that is none, with those that there are, and for one that an operand
  /// and an output have.
  std::size_t slot(std::string_view name) const;

  /// Another address for a tensor, whose shape, dtype and strides stay: tensor maps are not encoded anew, and nothing
  /// is done for other arguments. The driver is not asked whose memory it is. Throws UserError for an index that is no
  /// tensor's, and for a null or misaligned address; enqueue() throws it if an output then shares memory.
  void rebind(std::size_t slot, const void* data);

  /// Another value for a scalar that is bound by value. Throws UserError for an index that is no such scalar's, and for
  /// a value that its dtype does not have.
  void rebind(std::size_t slot, double value);

  /// Another workspace; the one before is given back. Nothing may be in flight. Throws UserError for memory that is too
  /// small, misaligned or not the GPU's, and DeviceError.
  void use(const WorkspaceMemory& workspace);

  /// Bytes of device memory that one execution in flight needs; may be 0.
  std::size_t workspace_bytes() const;

  /// One cuLaunchKernelEx, behind a look at which context is current: no allocation, no lock, no query of the device,
  /// no synchronisation. Throws DeviceError with what the driver says, and UserError if after rebind() an output shares
  /// memory with another argument.
  void enqueue(Stream stream) const;

 private:
  std::shared_ptr<LaunchImpl> impl_;  // and with it the kernel
};

/// A compiled kernel. Immutable and safe to run from several threads at once.
class Executable {
 public:
  explicit Executable(std::shared_ptr<const ExecutableImpl> impl) : impl_(std::move(impl)) {}
  /// Runs to completion; on a GPU on the default stream. Throws UserError if an argument is missing, unknown, or has
  /// another shape or dtype, and DeviceError if the device fails.
  void run(const Arguments& arguments) const;
  /// On a GPU: checks the arguments, takes the stream's workspace and launches; does not wait. What is captured gets a
  /// workspace of its own, which the graph and its instances keep as long as they live; the executable must outlive
  /// them. Throws as run does; on the CPU UserError.
  void enqueue(const Arguments& arguments, Stream stream) const;
  /// On a GPU: checks the arguments once, for any number of launches. Throws as run does; on the CPU UserError.
  /// `workspace`: the caller's; if its memory is null the launch allocates one.
  Launch bind(const Arguments& arguments, const WorkspaceMemory& workspace = {}) const;
  /// On a GPU: throws what run() would throw for these shapes, strides, dtypes and alignments. Reads the addresses'
  /// numbers alone: neither memory nor the device is touched. On the CPU, which takes all strides, does nothing.
  void check_arguments(const Arguments& arguments) const;
  /// Bytes of device memory that one execution in flight needs; 0 on the CPU. Throws nothing.
  std::size_t workspace_bytes() const;
  /// Which path was taken and why, in a few lines; on a GPU the plan, registers, spills and whether the kernel came
  /// from the cache.
  std::string describe() const;

 private:
  std::shared_ptr<const ExecutableImpl> impl_;
};

/// Compiles. Throws UserError for illegal input and Unsupported (with reasons) where no kernel serves.
/// On a GPU CompileError and DeviceError as well.
Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& options = {});

}  // namespace unisono
