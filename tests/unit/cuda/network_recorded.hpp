#pragma once
/// A network of three plain launches, planned by hand, for the tests' own driver.

#include "network/cuda/run/launch.hpp"
#include "recorded.hpp"

namespace unisono::network::gpu {

/// What each of its launches is handed: where it finds the caller's tensors, its tensors and its workspace.
struct HandedOver {
  const std::byte *callers = nullptr, *arena = nullptr, *workspace = nullptr;
};

class HandedStep final : public Step {
 public:
  static constexpr std::size_t bytes = 512;
  HandedStep() { name = "t", what = "a step"; }
  std::optional<jit::Request> request() const override { return jit::Request{}; }
  void load(int, jit::Binary) override {}
  std::size_t workspace_bytes() const override { return bytes; }
  Launch bind(const Bases& bases) const override {
    const HandedOver all{bases.callers, bases.arena, bases.workspace};
    const auto kernel =
        cuda::load_plain(0, {.cubin = {}, .resources = {}, .key = "handed", .entry = {}}, "handed", sizeof all);
    return cuda::bind_plain(kernel, {}, std::as_bytes(std::span(&all, 1)), "a step");
  }
};

class NetworkLaunches : public cuda::CudaLaunch {
 protected:
  NetworkLaunches() {
    state.parameter_bytes = sizeof(HandedOver);
    plan = make_plan();
    views = {{memory(24), DType::f32, {2, 3}, {3, 1}}, {memory(24), DType::f32, {2, 3}, {3, 1}}};
  }
  static std::shared_ptr<Plan> make_plan() {
    auto p = std::make_shared<Plan>();
    p->inputs = {{2, 3}};
    p->callers = {"input x", "output y"};
    p->bytes = p->workspaces_offset = 1024;
    for (std::size_t i = 0; i < 3; ++i) {
      p->launches.steps.push_back(std::make_unique<HandedStep>());
      p->launches.after.push_back(i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1});
      p->workspace_offsets.push_back(p->bytes);
      p->bytes += HandedStep::bytes;
    }
    return p;
  }
  std::shared_ptr<CudaNetworkLaunch> bound(const WorkspaceMemory& workspace = {}) {
    return std::make_shared<CudaNetworkLaunch>(nullptr, plan, views, workspace);
  }
  HandedOver handed(std::size_t launch) const {
    HandedOver all;
    std::memcpy(&all, state.launches.at(launch).parameters.data(), sizeof all);
    return all;
  }
  /// The addresses in a table.
  static std::vector<const void*> tensors(const std::byte* table) {
    std::vector<const void*> all;
    for (std::size_t i = 0; i < 2; ++i) {
      CallerTensor t;
      std::memcpy(&t, table + i * sizeof t, sizeof t);
      all.push_back(t.memory);
    }
    return all;
  }

  std::shared_ptr<Plan> plan;
  CallerViews views;
};

}  // namespace unisono::network::gpu
