#pragma once
/// Whether a network's results on the GPU agree with float64, at the size that is timed.

#include <map>
#include <string>
#include <vector>

#include "reference/network/answer.hpp"
#include "unisono/network.hpp"

namespace unisono::bench {

/// Elements of `type` (bf16 or f16) in the GPU's memory, copied to the host, in float64 and in the order of the
/// tensor's logical shape; images lie there channels last, and `shape` has the order of memory.
float64::Tensor64 download(const void* memory, DType type, const std::vector<std::int64_t>& shape);

/// Compares the outputs with the float64 reference of the network, which takes the CPU minutes for large networks; says
/// to stderr how far it is.
std::vector<float64::NetworkAgreement> verify(const NetworkExecutable& executable, const NetworkOptions& options,
                                              const std::map<std::string, ConstTensorView>& inputs,
                                              const std::map<std::string, TensorView>& outputs);

}  // namespace unisono::bench
