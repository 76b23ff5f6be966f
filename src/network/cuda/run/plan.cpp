#include "network/cuda/run/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/cuda/run/switches.hpp"
#include "network/executable_impl.hpp"
#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

void refuse_host_steps(const LaunchSequence& launches) {
  const std::vector<std::string> unserved = launches.unserved();
  if (unserved.empty()) return;
  throw Unsupported(fmt::format("NetworkOptions::strict is set, and the host would have to compute\n  {}",
                                fmt::join(unserved, "\n  ")));
}

std::set<std::size_t> host_only_positions(const Network& n, const NetworkPlan& decided) {
  std::vector<TensorId> callers = n.inputs;
  callers.insert(callers.end(), n.outputs.begin(), n.outputs.end());
  std::set<std::size_t> positions;
  for (std::size_t i = 0; i < callers.size(); ++i)
    if (decided.host_only.contains(callers[i])) positions.insert(i);
  return positions;
}

// Where the parts of a workspace begin
void lay_out(Plan& plan) {
  plan.scratch_offset = aligned(plan.storage.arena_bytes);
  plan.kept_offset = plan.scratch_offset + aligned(plan.launches.scratch_bytes);
  plan.staging_offset = plan.kept_offset + aligned(plan.launches.kept_bytes);
  plan.workspaces_offset = plan.staging_offset + aligned(plan.launches.staging_bytes);
  plan.bytes = plan.workspaces_offset;
  for (const auto& step : plan.launches.steps) {
    plan.workspace_offsets.push_back(plan.bytes);
    plan.bytes += aligned(step->workspace_bytes());
  }
}

}  // namespace

std::shared_ptr<Plan> make_plan(const FusedNetwork& fused, DeviceConstants& constants, const plan::Device& device,
                                std::vector<Sizes> inputs, std::vector<bool> direct, const NetworkOptions& options) {
  auto plan = std::make_shared<Plan>();
  const Network& n = fused.network;
  plan->inputs = std::move(inputs), plan->direct = std::move(direct);
  plan->direct.resize(n.inputs.size() + n.outputs.size());
  plan->device_index = options.device_index;
  for (const TensorId id : n.inputs) plan->callers.push_back("input " + n[id].name);
  for (const TensorId id : n.outputs) plan->callers.push_back("output " + n[id].name);
  const std::vector<bool> none_in(n.inputs.size(), false), none_out(n.outputs.size(), false);
  const auto behind = plan->direct.begin() + static_cast<std::ptrdiff_t>(n.inputs.size());
  const std::vector<bool> direct_in(plan->direct.begin(), behind), direct_out(behind, plan->direct.end());
  plan->storage = plan_storage(fused, {plan->inputs, direct_in, direct_out, none_in, none_out}, options.reuse_memory);
  GraphKernelCache graph_kernels;
  const PlanningInput in{.fused = fused,
                         .storage = plan->storage,
                         .device = device,
                         .constants = constants,
                         .graph_kernels = graph_kernels,
                         .element = options.precision,
                         .tuned = options.tuned,
                         .watchdog = options.watchdog,
                         .filters_ahead = with_filters_ahead(),
                         .attention = attention_kernels(options.attention),
                         .gpu = device.driver.empty() ? std::nullopt : std::optional(options.device_index),
                         .on_host = support::host_operators()};
  const NetworkPlan decided = decide(in);
  plan->decisions = to_string(decided, in);
  plan->launches = emit(in, decided);
  plan->host_only = host_only_positions(n, decided);
  if (options.strict) refuse_host_steps(plan->launches);
  lay_out(*plan);
  return plan;
}

void load(Plan& plan, const NetworkOptions& options) {
  static jit::Jit shared;
  std::vector<jit::Request> requests;
  for (const auto& step : plan.launches.steps)
    if (auto request = step->request()) requests.push_back(*std::move(request));
  jit::Settings settings;
  settings.jobs = options.threads;
  std::vector<jit::Binary> binaries =
      options.threads == 0 ? shared.compile(requests) : jit::Jit(settings).compile(requests);
  auto binary = binaries.begin();
  for (const auto& step : plan.launches.steps) {
    step->load(plan.device_index, step->request() ? std::move(*binary++) : jit::Binary{});
    for (const auto& constant : step->constants) constant->load(plan.device_index);
  }
  for (HostStep& step : plan.launches.host)
    step.run = [network = build_cpu(step.network, {.fuse = options.fuse, .reuse_memory = options.reuse_memory})](
                   const auto& inputs, const auto& outputs) { network->run(inputs, outputs, nullptr); };
}

}  // namespace unisono::network::gpu
