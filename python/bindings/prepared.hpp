#pragma once
/// A call whose tensors have known shapes, strides and dtypes: only their addresses are still open. Neither Python nor
/// PyTorch stands here; the extension makes prepared calls, and it and PyTorch's operators run them.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono::python {

/// How a tensor that is read must lie. One that lies otherwise is copied first, by whoever runs the call.
enum class Order : std::uint8_t { as_given, contiguous, channels_last };

/// A tensor that a call writes, in the caller's order of extents. Strides count elements.
struct MadeTensor {
  std::vector<std::int64_t> shape, strides;
  DType dtype = DType::f32;
};

class PreparedCall {
 public:
  /// Memory of the GPU for a workspace, ordered behind the call's stream, and what keeps it: (bytes, address). The call
  /// keeps it as long as it lives, so it must be of no pool that a CUDA graph is captured into.
  using Allocate = std::function<std::shared_ptr<void>(std::size_t, void**)>;

  virtual ~PreparedCall() = default;

  /// Runs to completion on a CPU; enqueues on a GPU, on `stream`, where it is bound once for each stream and has one
  /// workspace there. What is captured into a CUDA graph gets a workspace that the graph keeps. Thread safe.
  /// addresses: image and filter (left and right, of a dual one both of the latter), tensors of operands, results.
  /// numbers: scalars, as they were prepared. Throws as Executable::run and Launch::enqueue do.
  virtual void run(const void* const* addresses, const double* numbers, Stream stream, const Allocate& allocate) = 0;

  std::vector<Order> orders;        ///< of the tensors that are read
  std::vector<MadeTensor> results;  ///< in the order of the stores
  std::atomic<std::uint64_t> runs = 0;
  std::atomic<bool> was_captured = false;  ///< a CUDA graph may replay it, and must not outlive it
  std::atomic<bool> is_retired = false;    ///< forgotten by the cache: to be prepared anew
};

/// The tensors and numbers of `arguments` are given by position: a and b, `tensors` and `numbers` of the operands, and
/// `outputs`, all by name. The addresses within `arguments` do not count.
struct CallForm {
  Contraction contraction;
  Arguments arguments;
  std::vector<std::string> tensors, numbers, outputs;
  Device device = Device::cpu;
  int device_index = 0;
};

std::shared_ptr<PreparedCall> prepare_call(Executable executable, CallForm form);

}  // namespace unisono::python
