// What the host computes between the graphs of a network: copies, order, tables, errors, and captures.

#include <numeric>

#include "network_recorded.hpp"
#include "support/float_convert.hpp"

namespace unisono::network::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Floats = std::array<float, 6>;

// A step that adds 1 to a tensor, behind the first of three launches, and one more behind the last
class HostSteps : public NetworkLaunches {
 protected:
  static constexpr std::size_t staging_offset = 512, half = 512, output_offset = 256;

  HostSteps() {
    add_step(1, 0), add_step(3, half);
    plan->launches.after = {{}, {}, {1}};
    plan->launches.staging_bytes = plan->launches.host_bytes = 2 * half;
    plan->staging_offset = staging_offset;
    plan->workspaces_offset = staging_offset + 2 * half;
    plan->bytes = plan->workspaces_offset + 3 * HandedStep::bytes;
    for (std::size_t i = 0; i < 3; ++i) plan->workspace_offsets[i] = plan->workspaces_offset + i * HandedStep::bytes;
    room = static_cast<std::byte*>(memory(static_cast<std::int64_t>(plan->bytes)));
  }
  void add_step(std::size_t cut, std::size_t offset) {
    const std::size_t k = plan->launches.host.size();
    HostStep step;
    step.unserved = {"floor 'n" + std::to_string(k) + "': no kernel"};
    step.inputs = {{.name = "in",
                    .shape = {2, 3},
                    .strides = {3, 1},
                    .type = DType::f32,
                    .bytes = 24,
                    .offset = offset,
                    .staged = Staged{offset, 2 + 2 * k}}};
    step.outputs = {{.name = "out",
                     .shape = {2, 3},
                     .strides = {3, 1},
                     .type = DType::f32,
                     .bytes = 24,
                     .offset = offset + output_offset,
                     .staged = Staged{offset + output_offset, 3 + 2 * k}}};
    step.run = [this](const auto& inputs, const auto& outputs) {
      ++runs;
      if (fails) throw UserError("an index is outside");
      Floats x;
      std::memcpy(x.data(), inputs.at("in").data, sizeof x);
      for (float& f : x) f += 1;
      std::memcpy(outputs.at("out").data, x.data(), sizeof x);
      graphs_ahead.push_back(graphs());
    };
    plan->launches.host.push_back(std::move(step));
    plan->launches.cuts.push_back(cut);
  }
  std::shared_ptr<CudaNetworkLaunch> bound_to_room() { return bound({.memory = room, .bytes = plan->bytes}); }
  std::ptrdiff_t graphs() const { return std::count(state.calls.begin(), state.calls.end(), "launch a graph"); }
  void stage(std::size_t offset, const Floats& x) { std::memcpy(room + staging_offset + offset, x.data(), sizeof x); }
  Floats staged(std::size_t offset) const {
    Floats x;
    std::memcpy(x.data(), room + staging_offset + offset, sizeof x);
    return x;
  }

  std::byte* room = nullptr;
  int runs = 0;
  bool fails = false;
  std::vector<std::ptrdiff_t> graphs_ahead;  // by run: graphs launched before
};

TEST_F(HostSteps, StandBetweenGraphs) {
  const auto launch = bound_to_room();
  const CUstream s = stream();
  stage(0, {1, 2, 3, 4, 5, 6}), stage(half, {-1, -2, -3, -4, -5, -6});
  launch->enqueue(s);
  EXPECT_THAT(staged(output_offset), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(staged(half + output_offset), ElementsAre(0, -1, -2, -3, -4, -5));
  EXPECT_THAT(graphs_ahead, ElementsAre(1, 2)) << "the third segment is empty, and no graph";
  EXPECT_EQ(graphs(), 2);
  state.calls.clear();
  launch->enqueue(s);
  std::vector<std::string> calls;
  for (const std::string& call : state.calls)
    if (call == "copy" || call == "launch a graph" || call == "synchronize a stream") calls.push_back(call);
  EXPECT_THAT(calls, ElementsAre("launch a graph", "copy", "synchronize a stream", "copy", "launch a graph", "copy",
                                 "synchronize a stream", "copy"));
}

// The table: the caller's tensors, which move, and behind them those of host steps, which stay
TEST_F(HostSteps, HaveRowsOfTheTable) {
  Workspace own(*plan, Workspace::Way::replayed, room);
  const CUstream s = stream();
  EXPECT_EQ(own.enqueue_timed(views, 1, s).size(), 5u) << "three launches and two host steps";
  views[1].data = memory(24);
  own.enqueue_timed(views, 1, s);
  std::array<CallerTensor, 6> table{};
  std::memcpy(table.data(), handed(0).callers, sizeof table);
  EXPECT_EQ(table[1].memory, views[1].data);
  const std::size_t offsets[] = {0, output_offset, half, half + output_offset};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(table[2 + i].memory, room + staging_offset + offsets[i]);
    EXPECT_EQ(table[2 + i].strides[2], 3);
    EXPECT_EQ(table[2 + i].strides[3], 1);
  }
  state.calls.clear();
  own.enqueue_timed(views, 1, s);
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "copy"), 4) << "the steps' tensors, and no table";
}

// The caller's tensors as steps read and make them: of any strides and float type, and given when all has been read
TEST_F(HostSteps, TakeTheCallersTensors) {
  for (HostStep& step : plan->launches.host) step.inputs[0].staged.reset(), step.inputs[0].callers = {0};
  plan->launches.host[1].outputs[0].staged.reset(), plan->launches.host[1].outputs[0].callers = {1};
  plan->launches.host[0].outputs[0].staged->position = 2;  // the only row behind the caller's
  auto* const x = static_cast<float*>(const_cast<void*>(views[0].data));
  auto* const y = static_cast<float*>(memory(48));
  const auto run_into = [&](const Sizes& strides) {
    std::iota(x, x + 6, 1.0F), std::fill_n(y, 12, -1.0F);
    views[1] = {y, DType::f32, {2, 3}, strides};
    bound_to_room()->enqueue(stream());
    return std::vector<float>(y, y + 12);
  };
  EXPECT_THAT(run_into({1, 2}), ElementsAre(2, 5, 3, 6, 4, 7, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(run_into({6, 2}), ElementsAre(2, -1, 3, -1, 4, -1, 5, -1, 6, -1, 7, -1));
  EXPECT_THAT(run_into({4, 1}), ElementsAre(2, 3, 4, -1, 5, 6, 7, -1, -1, -1, -1, -1));
  // Elements of 16 bits that are read from the end
  auto* const half_precise = static_cast<std::uint16_t*>(memory(12));
  for (int i = 0; i < 6; ++i) half_precise[i] = support::float_to_bf16(static_cast<float>(i));
  views[0] = {half_precise + 5, DType::bf16, {2, 3}, {-3, -1}};
  EXPECT_THAT(run_into({3, 1}), ElementsAre(6, 5, 4, 3, 2, 1, -1, -1, -1, -1, -1, -1));
}

// What a step throws ends the execution there, and the next begins anew
TEST_F(HostSteps, ThatFailEndTheExecution) {
  const auto launch = bound_to_room();
  const CUstream s = stream();
  fails = true;
  EXPECT_THAT(refusal<UserError>([&] { launch->enqueue(s); }), HasSubstr("an index is outside"));
  EXPECT_EQ(graphs(), 1);
  EXPECT_EQ(runs, 1);
  fails = false;
  launch->enqueue(s);
  EXPECT_EQ(graphs(), 3);
  EXPECT_EQ(runs, 3);
}

TEST_F(HostSteps, AreInNoCapture) {
  const auto launch = bound_to_room();
  const CUstream s = stream();
  const CUgraph graph = captured(s, [&] {
    EXPECT_THAT(refusal<Unsupported>([&] { launch->enqueue(s); }),
                HasSubstr("cannot be captured: floor 'n0': no kernel (and 1 more); NetworkOptions::strict"));
  });
  EXPECT_TRUE(state.launches.empty()) << "nothing was recorded";
  EXPECT_EQ(runs, 0);
  cuda::driver().cuGraphDestroy(graph);
  launch->enqueue(s);
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace unisono::network::gpu
