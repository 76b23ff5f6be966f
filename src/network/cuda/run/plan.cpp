#include "network/cuda/run/plan.hpp"

#include <algorithm>
#include <utility>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/emit/emission.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

std::shared_ptr<Plan> make_plan(const FusedNetwork& fused, DeviceConstants& constants, const plan::Device& device,
                                std::vector<Sizes> inputs, const NetworkOptions& options) {
  auto plan = std::make_shared<Plan>();
  const Network& n = fused.network;
  plan->inputs = std::move(inputs);
  plan->device_index = options.device_index;
  for (const TensorId id : n.inputs) plan->callers.push_back("input " + n[id].name);
  for (const TensorId id : n.outputs) plan->callers.push_back("output " + n[id].name);
  const std::vector<bool> none_in(n.inputs.size(), false), none_out(n.outputs.size(), false);
  plan->storage = plan_storage(fused, {plan->inputs, none_in, none_out, none_in, none_out}, options.reuse_memory);
  const PlanningInput in{fused, plan->storage, device, constants, options.precision, options.tuned, options.watchdog};
  const NetworkPlan decided = decide(in);
  plan->decisions = to_string(decided, in);
  plan->launches = emit(in, decided);
  plan->scratch_offset = aligned(plan->storage.arena_bytes);
  plan->kept_offset = plan->scratch_offset + aligned(plan->launches.scratch_bytes);
  plan->workspaces_offset = plan->kept_offset + aligned(plan->launches.kept_bytes);
  plan->bytes = plan->workspaces_offset;
  for (const auto& step : plan->launches.steps) {
    plan->workspace_offsets.push_back(plan->bytes);
    plan->bytes += aligned(step->workspace_bytes());
  }
  return plan;
}

void load(Plan& plan, const NetworkOptions& options) {
  static jit::Jit shared;
  std::vector<jit::Request> requests;
  for (const auto& step : plan.launches.steps) requests.push_back(step->request());
  jit::Settings settings;
  settings.jobs = options.threads;
  std::vector<jit::Binary> binaries =
      options.threads == 0 ? shared.compile(requests) : jit::Jit(settings).compile(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    plan.launches.steps[i]->load(plan.device_index, std::move(binaries[i]));
    for (const auto& constant : plan.launches.steps[i]->constants) constant->load(plan.device_index);
  }
}

}  // namespace unisono::network::gpu
