#pragma once
/// Attention by cuDNN on a GPU. No CUDA type stands here.

#include <memory>
#include <span>

#include "runtime/cudnn/attention.hpp"
#include "unisono/executable.hpp"

namespace unisono::cuda {

/// cuDNN's plan for this GPU, or what it says. Throws DeviceError where cuDNN does not start.
plan::Expected<std::shared_ptr<const cudnn::AttentionPlan>> plan_attention(int device_index,
                                                                           const cudnn::Library& library,
                                                                           const cudnn::AttentionProblem& problem);

/// A launch like any other, of plan_attention(), but that it may be several nodes of a graph: addresses of q, k, v, y
/// and biases, and workspace of workspace_bytes(). What cuDNN loads when it first runs is loaded here. Throws
/// DeviceError.
Launch bind_attention(int device_index, std::shared_ptr<const cudnn::AttentionPlan> plan,
                      std::span<void* const> addresses, void* workspace);

}  // namespace unisono::cuda
