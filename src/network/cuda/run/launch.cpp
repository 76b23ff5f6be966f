#include "network/cuda/run/launch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>

#include "ir/suggest.hpp"
#include "runtime/cuda/stream.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::size_t workspace_alignment = 256;

// "input x" and "output x" are asked for as x, if that is only one of them
bool is_named(const std::string& caller, std::string_view name) {
  return caller == name || std::string_view(caller).substr(caller.find(' ') + 1) == name;
}

// A workspace that the caller gives is cleared before anything is bound to it
void* cleared_workspace(const Plan& plan, const WorkspaceMemory& given) {
  void* const memory = checked_workspace(plan, given);
  if (memory != nullptr && !given.is_clear) cuda::clear(plan.device_index, memory, plan.bytes, given.stream);
  return memory;
}

}  // namespace

void* checked_workspace(const Plan& plan, const WorkspaceMemory& given) {
  if (plan.bytes == 0 || (given.memory == nullptr && given.bytes == 0)) return nullptr;
  if (given.memory == nullptr || given.bytes < plan.bytes)
    throw UserError(
        fmt::format("the workspace was given {} bytes at the address {}; expected {} bytes of the GPU's memory, as "
                    "workspace_bytes() says, or none, for Unisono to allocate it",
                    given.bytes, given.memory, plan.bytes));
  if (const auto address = reinterpret_cast<std::uintptr_t>(given.memory); address % workspace_alignment != 0)
    throw UserError(fmt::format("the workspace was given the address {:#x}; expected a multiple of {} bytes", address,
                                workspace_alignment));
  if (!cuda::is_device_memory(plan.device_index, given.memory))
    throw UserError(fmt::format("the workspace was given the address {}, which is not in the memory of GPU {}",
                                given.memory, plan.device_index));
  cuda::check_lies_on(plan.device_index, given.memory, plan.bytes, "the workspace");
  return given.memory;
}

CudaNetworkLaunch::CudaNetworkLaunch(std::shared_ptr<const NetworkImpl> network, std::shared_ptr<const Plan> plan,
                                     CallerViews views, const WorkspaceMemory& workspace)
    : network_(std::move(network)),
      plan_(std::move(plan)),
      views_(std::move(views)),
      workspace_(*plan_, Workspace::Way::replayed, cleared_workspace(*plan_, workspace)) {
  workspace_.bind(views_, plan_->inputs.size());
}

std::size_t CudaNetworkLaunch::slot(std::string_view name) const {
  const auto& callers = plan_->callers;
  std::size_t found = callers.size();
  for (std::size_t i = 0; i < callers.size(); ++i) {
    if (!is_named(callers[i], name)) continue;
    if (found < callers.size())
      throw UserError(fmt::format("'{}' is the name of an input and of an output; ask for '{}' or '{}'", name,
                                  callers[found], callers[i]));
    found = i;
  }
  if (found < callers.size()) return found;
  std::vector<std::string_view> names;
  for (const std::string& caller : callers) names.push_back(std::string_view(caller).substr(caller.find(' ') + 1));
  throw UserError(fmt::format("the network has no input or output '{}'; it has {}{}", name, fmt::join(callers, ", "),
                              ir::did_you_mean(ir::nearest(name, names))));
}

void CudaNetworkLaunch::rebind(std::size_t slot, const void* data) {
  if (slot >= views_.size())
    throw UserError(
        fmt::format("slot {} was given; the network has {} inputs and outputs, expected one that slot() "
                    "returned",
                    slot, views_.size()));
  ConstTensorView& view = views_[slot];
  if (element_count(view.shape) == 0) return;
  if (data == nullptr) throw UserError(fmt::format("{} was given a null pointer", plan_->callers[slot]));
  check_element_alignment(data, view.dtype, plan_->callers[slot]);
  if (slot < plan_->direct.size() && plan_->direct[slot]) check_direct_alignment(data, plan_->callers[slot]);
  view.data = data;
  workspace_.rebind(slot, data);
}

void CudaNetworkLaunch::enqueue(Stream stream) {
  if (!workspace_.is_captured(stream)) return workspace_.replay(stream);
  Workspace& run = captured_.take(plan_, stream, [&] {
    return std::make_unique<Workspace>(*plan_, Workspace::Way::recorded, workspace_.memory());
  });
  run.bind(views_, plan_->inputs.size());
  run.follow(workspace_.following());
  run.record(stream);
}

void CudaNetworkLaunch::check_faults(Stream stream) {
  try {
    workspace_.check_faults(plan_->launches, stream);
  } catch (const UserError&) {
    workspace_.forget_faults(plan_->launches, stream);
    throw;
  }
}

}  // namespace unisono::network::gpu
