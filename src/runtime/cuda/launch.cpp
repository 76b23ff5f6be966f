#include "runtime/cuda/launch.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/cuda/encode.hpp"
#include "runtime/cuda/memory_check.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

constexpr std::size_t workspace_alignment = 256;

void check_workspace(const Gpu& gpu, const WorkspaceMemory& given, std::size_t needed) {
  if (given.memory == nullptr)
    throw UserError(fmt::format(
        "the workspace was given {} bytes at a null pointer; expected memory of the GPU, or no bytes, for Unisono to "
        "allocate it",
        given.bytes));
  if (given.bytes < needed)
    throw UserError(
        fmt::format("the workspace was given {} bytes; expected {}, as workspace_bytes() says", given.bytes, needed));
  const auto address = reinterpret_cast<std::uintptr_t>(given.memory);
  if (address % workspace_alignment != 0)
    throw UserError(fmt::format("the workspace was given the address {:#x}; expected a multiple of {} bytes", address,
                                workspace_alignment));
  const NamedPointer all{given.memory, needed, "the workspace"};
  check_memory(gpu, {&all, 1});
}

}  // namespace

BoundLaunch::BoundLaunch(std::shared_ptr<const LaunchedKernel> kernel, Prepared prepared,
                         const WorkspaceMemory& workspace)
    : kernel_(std::move(kernel)), prepared_(std::move(prepared)) {
  take(workspace);
}

std::size_t BoundLaunch::workspace_bytes() const { return kernel_->workspace_bytes(); }

void BoundLaunch::take(const WorkspaceMemory& workspace) {
  const std::size_t needed = workspace_bytes();
  if (needed == 0) return kernel_->place(prepared_.parameters, 0);
  if (workspace.memory == nullptr && workspace.bytes == 0) {
    Memory made = kernel_->make_workspace();
    kernel_->place(prepared_.parameters, made.address());
    own_ = std::move(made), callers_ = {};
    return;
  }
  check_workspace(kernel_->gpu(), workspace, needed);
  const std::span callers(static_cast<const std::byte*>(workspace.memory), needed);
  check_sharing(prepared_.slots, callers);
  const auto address = reinterpret_cast<CUdeviceptr>(workspace.memory);
  if (!workspace.is_clear)
    check(driver().cuMemsetD8Async(address, 0, needed, static_cast<CUstream>(workspace.stream)),
          "clearing a workspace");
  kernel_->place(prepared_.parameters, address);
  own_ = {}, callers_ = callers;
}

void BoundLaunch::use(const WorkspaceMemory& workspace) {
  check_alive(kernel_->gpu());
  const Current current(kernel_->gpu());
  take(workspace);
}

void BoundLaunch::rebind(std::size_t slot, const void* data) {
  check_address(prepared_.slots, slot, data);
  const void*& now = prepared_.slots[slot].view.data;
  if (now == data) return;
  for (const Site& site : prepared_.sites)
    if (site.slot == slot) move_site(prepared_.parameters, site, data);
  now = data;
  moved_.store(true, std::memory_order_relaxed);
}

void BoundLaunch::rebind(std::size_t slot, double value) {
  check_number(prepared_.slots, slot);
  const Slot& s = prepared_.slots[slot];
  const std::uint64_t bits = bits_of(value, s.view.dtype, s.what);
  for (const Site& site : prepared_.sites)
    if (site.slot == slot) move_site(prepared_.parameters, site, bits);
}

void BoundLaunch::enqueue(Stream stream) const {
  if (moved_.load(std::memory_order_relaxed)) {
    check_sharing(prepared_.slots, callers_);
    moved_.store(false, std::memory_order_relaxed);
  }
  kernel_->launch(prepared_.parameters, static_cast<CUstream>(stream));
}

}  // namespace unisono::cuda
