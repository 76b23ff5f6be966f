// Memory that a run would need and the process may not have: an error ahead of the first byte.

#include <gtest/gtest.h>

#include "network/steps.hpp"
#include "runtime/cpu/ops/order.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {
namespace {

std::string refusal(const NetworkExecutable& run, const std::map<std::string, ConstTensorView>& inputs,
                    const std::map<std::string, TensorView>& outputs) {
  try {
    run.run(inputs, outputs);
    return "no error";
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Budget, IntermediatesBeyondTheMachine) {
  constexpr std::int64_t side = std::int64_t{1} << 18;
  NetworkBuilder net;
  const auto small = [](NetworkValue x) { return max_pool(x, {.kernel = 1, .stride = 1}); };
  net.output(small(small(net.input("x", {1, 64, side, side}))), "y");  // 16 TB each
  const NetworkExecutable run = compile(net.build(), {.threads = 1});
  float x = 0, y = 0;  // never looked at
  const std::string what = refusal(run, {{"x", {&x, DType::f32, {1, 64, side, side}, {}}}},
                                   {{"y", {&y, DType::f32, {1, 64, side, side}, {}}}});
  EXPECT_NE(what.find("bytes for these inputs"), std::string::npos) << what;
  EXPECT_NE(what.find("(intermediates "), std::string::npos) << what;
}

// What an operator takes while it runs counts, too: here float64 between the axes of a resampled image
TEST(Budget, MemoryOfAnOperatorAtWork) {
  constexpr std::int64_t rows = std::int64_t{1} << 30;
  operators::Resample resample;
  resample.mode = ResizeMode::linear;
  resample.sizes = {rows, 3};
  resample.scales = {0, 0};
  NetworkBuilder net;
  net.output(net.apply(resample, {net.input("x", {rows, 1 << 14})}), "y");
  const NetworkExecutable run = compile(net.build(), {.threads = 1});
  float x = 0, y = 0;  // never looked at
  const std::string what =
      refusal(run, {{"x", {&x, DType::f32, {rows, 1 << 14}, {}}}}, {{"y", {&y, DType::f32, {rows, 3}, {}}}});
  EXPECT_NE(what.find("(steps at work "), std::string::npos) << what;
}

// The best so far, and not an index for each element of the axis
TEST(Budget, TopKTakesAsMuchAsItFinds) {
  NetworkBuilder net;
  net.output(net.apply(operators::TopK{.axis = 1, .count = 3}, {net.input("x", {"n", 1 << 20})}), "y");
  const network::FusedNetwork fused = network::fuse(net.build(), true);
  network::PlanKey key;
  key.inputs = {{4, 1 << 20}};
  for (auto* list : {&key.direct_inputs, &key.direct_outputs, &key.planar_inputs, &key.planar_outputs})
    list->push_back(true);
  const network::Constants none(fused.network.tensors.size());
  const auto plan = network::make_plan(fused, none, key, {.threads = 2});
  EXPECT_EQ(plan->scratch_bytes, 2 * cpu::top_k_bytes(3));
}

}  // namespace
}  // namespace unisono
