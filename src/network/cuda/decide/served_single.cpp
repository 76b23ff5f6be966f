#include "network/cuda/decide/served_single.hpp"

#include <algorithm>

#include "network/cuda/parameters.hpp"
#include "products/kernel.hpp"

namespace unisono::network::gpu {

bool has_plain_kernel(const PlanningInput& in, const Operator& op) {
  if (std::holds_alternative<operators::GlobalAveragePool>(op.kind)) return true;
  // It is found for devices with kernels alone
  if (std::holds_alternative<operators::Attention>(op.kind)) return true;
  if (std::holds_alternative<operators::FilterGradient>(op.kind)) return !products::refuse_device(in.device);
  if (std::holds_alternative<operators::NormGradient>(op.kind)) return true;
  if (!std::holds_alternative<operators::MatMul>(op.kind)) return false;
  const Sizes& c = in.sizes(op.output);  // by the tensor cores
  const auto batch = std::count_if(c.begin(), c.end() - 2, [](std::int64_t extent) { return extent != 1; });
  return batch <= kBatchAxes && !products::refuse_device(in.device);
}

}  // namespace unisono::network::gpu
