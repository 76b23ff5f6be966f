#pragma once
/// Compiling one contraction with its epilogue graph, and running it.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"
#include "unisono/head.hpp"
#include "unisono/resampled.hpp"
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
  /// The right operand or filter, if it never changes: packed once at compile time; Arguments::b is then ignored.
  std::optional<ConstTensorView> constant_b = {};
  /// Called with the name of each pass and the graph after it.
  std::function<void(const std::string& pass, const Graph& before, const Graph& after)> on_pass = {};

  // Device::cuda

  int device_index = 0;  ///< which GPU, as the driver counts them
  /// Parts of the plan that the caller fixes, such as "tile=128x160 order=pingpong mode=resident"; the rest is chosen.
  /// docs/cuda-backend.md lists the keys.
  std::string plan = {};
  /// Where `plan` is empty: a plan that was measured for this problem comes before the cost model's
  /// (unisono/tuning.hpp).
  bool tuned = true;
  /// Scalar operands that are bound as tensors in the GPU's memory.
  std::set<std::string> device_scalars = {};
  /// Of a convolution: further tensors that the kernel makes of the [m,n] store that it writes last.
  Resampled resampled = {};
  /// A 1x1 convolution, or product, of that store, which the kernel computes as well.
  Head head = {};
  /// Transcendental functions as accurate as for f32 outputs, also where the output has 16 bits.
  bool accurate = false;
  /// For tests: a wait inside the kernel that lasts some seconds ends the launch with an error.
  bool watchdog = false;
  /// For tests: random delays before each publication, wait and store.
  bool delays = false;
};

/// What one execution reads and writes. All memory belongs to the caller. On a GPU all tensors are dense (matrices a,
/// and b, of a batch may lie apart, and rows of the image and of the last [m,n] store), in that GPU's memory, aligned
/// to 16 bytes ([m,n], the image and the filter) or to their element; scalars are given by value unless
/// CompileOptions::device_scalars names them; no output shares memory with anything else.
struct Arguments {
  ConstTensorView a;                                     ///< left operand or image
  ConstTensorView b;                                     ///< right operand or filter
  std::map<std::string, ConstTensorView> operands = {};  ///< tensors and scalars by pointer
  std::map<std::string, double> scalars = {};            ///< scalars by value
  std::map<std::string, TensorView> outputs =
      {};  ///< by the name of the store, or in CompileOptions::resampled or head
};

class ExecutableImpl;
class LaunchImpl;

/// An execution with all its arguments in place, on a GPU, and a workspace of its own: *one* execution in flight.
/// Enqueue it on one stream at a time, and bind another for a stream beside it; two at once are undefined. Captured
/// into a CUDA Graph it is one kernel node; it must outlive the graph, whose replays count as its executions.
class Launch {
 public:
  explicit Launch(std::shared_ptr<const LaunchImpl> impl) : impl_(std::move(impl)) {}
  /// One cuLaunchKernelEx: no allocation, no lock, no synchronisation. Throws DeviceError with what the driver says.
  void enqueue(Stream stream) const;

 private:
  std::shared_ptr<const LaunchImpl> impl_;  // and with it the kernel
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
  Launch bind(const Arguments& arguments) const;
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
