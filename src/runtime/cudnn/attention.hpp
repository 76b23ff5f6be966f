#pragma once
/// Attention by cuDNN's fused kernels: softmax(scale q kᵀ + biases) v.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/device.hpp"
#include "plan/expected.hpp"
#include "runtime/cudnn/library.hpp"
#include "unisono/dtype.hpp"

namespace unisono::cudnn {

/// Matrices in memory: (batch, heads, rows, columns), strides in elements. Keys and values may have fewer heads than
/// queries, of which then so many in a row share one; extents of a bias may be 1, which repeats it.
struct Matrices {
  std::array<std::int64_t, 4> extents{}, strides{};
  DType type = DType::bf16;
};

/// q (batch, heads, queries, width), k (…, keys, width), v (…, keys, width of values), y (…, queries, width of values),
/// biases (batch or 1, heads or 1, queries or 1, keys).
struct AttentionProblem {
  Matrices q, k, v, y;
  std::vector<Matrices> biases;
  float scale = 1;
};

/// A plan of cuDNN's for one problem. Immutable; executions may share it.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  virtual const Library& library() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  /// For people: "attention by cuDNN 9.13.1, engine 8".
  virtual std::string text() const = 0;
};

/// What a plan is made for: the GPU of a handle, or a device that is only described, for which it cannot be executed.
struct Target {
  Handle handle = nullptr;
  const plan::Device* described = nullptr;
};

/// The first of cuDNN's proposals that can be finished. Refuses with what cuDNN says, and more than 256 MiB of
/// workspace, which fused attention never takes. The GPU's context is current, if there is a handle.
plan::Expected<std::shared_ptr<const AttentionPlan>> plan_attention(const Library& library,
                                                                    const AttentionProblem& problem,
                                                                    const Target& target);

/// Whether times of its kernels beside ours are known on such a device.
bool attention_was_timed(const plan::Device& device);

/// A plan with all addresses in place: of q, k, v, y, and biases.
class AttentionRun {
 public:
  /// Throws DeviceError. `workspace`: of workspace_bytes().
  AttentionRun(std::shared_ptr<const AttentionPlan> plan, std::span<void* const> addresses, void* workspace);
  ~AttentionRun();
  AttentionRun(const AttentionRun&) = delete;
  AttentionRun& operator=(const AttentionRun&) = delete;
  /// Puts one execution on the stream, which may be captured; neither allocates nor waits. One at a time for a handle,
  /// which is the plan's GPU's; its context is current. Throws DeviceError.
  void enqueue(Handle handle, CudaStream stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A device as cuDNN reads it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION): what Device does not say is an H200's.
std::string properties_of(const plan::Device& device);

}  // namespace unisono::cudnn
