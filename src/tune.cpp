/// Tuning as users ask for it: from a graph or a network to problems, and to the tuner.

#include <fmt/format.h>

#include "lower/lower.hpp"
#include "network/cuda/run/plan.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cuda/backend.hpp"
#include "tuner/tuner.hpp"
#include "unisono/error.hpp"
#include "unisono/tuning.hpp"

namespace unisono {

TuningReport tune(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                  const TuningOptions& tuning) {
  verify(graph);
  runtime::check_storage(options, runtime::operand_names(graph));
  if (!options.plan.empty() || options.plan_override.any())
    throw UserError(
        "CompileOptions::plan or plan_override is given, so there is nothing to choose; leave both empty to tune");
  if (product_count(contraction) > 1)
    throw Unsupported(
        fmt::format("{}: dual products and convolutions are not measured; their plan is the cost model's, or fixed by "
                    "CompileOptions::plan. "
                    "Tune a single one of {} columns for a plan of the same matrix instructions",
                    to_string(contraction), 2 * extents(contraction).cols));
  return tuner::tune({lower::analyse(contraction, graph, options).value()}, tuning);
}

TuningReport tune(const Network& network, const NetworkOptions& options,
                  const std::map<std::string, std::vector<std::int64_t>>& inputs, const TuningOptions& tuning) {
  NetworkOptions on_gpu = options;
  on_gpu.device = Device::cuda;
  on_gpu.device_index = tuning.device_index;
  const plan::Device device = cuda::open_device(tuning.device_index);
  return tuner::tune(network::gpu::tuning_problems(network, on_gpu, inputs, device), tuning);
}

}  // namespace unisono
