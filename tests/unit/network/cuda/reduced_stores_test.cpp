// Sums, means and pools that come out of a contraction's kernel, and those that do not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {
namespace {

using testing::HasSubstr;

NetworkValue reduced(ReduceOp op, NetworkValue x, std::vector<int> axes = {}, bool keep = false) {
  return x.builder().apply(operators::Reduce{op, std::move(axes), keep}, {x});
}

// Launches that compute, without the changes of layout at the border
std::vector<std::string> launches(const Decided& d) {
  std::vector<std::string> all;
  for (const auto& step : emit(d.input, d.plan).steps)
    if (!step->what.starts_with("change of layout")) all.push_back(step->name + ": " + step->what + ": " + step->how);
  return all;
}

struct Loss {
  NetworkBuilder net{"loss"};
  Weights weights{net};
  NetworkValue t, p;

  explicit Loss(std::int64_t columns)
      : t(net.input("t", {48, columns})), p(sigmoid(gemm(net.input("x", {48, 64}), weights({64, columns})))) {}
  NetworkValue values() { return t * log(p) + (1.0 - t) * log(1.0 - p); }
  Decided decided(std::int64_t columns, std::vector<std::string> on_host = {}) {
    return Decided(net.build(), {{48, columns}, {48, 64}}, "host groups", std::move(on_host));
  }
};

TEST(ReducedStores, ALossIsOneLaunch) {
  for (const std::int64_t columns : {32, 12, 1}) {  // kernels pad the others
    for (const ReduceOp op : {ReduceOp::mean, ReduceOp::sum}) {
      Loss loss(columns);
      // as exporters write it: of one element, from which its axes are taken
      loss.net.output(-reshape(reduced(op, loss.values(), {0, 1}, true).named("kept"), {1}) / 3.0, "loss");
      const Decided d = loss.decided(columns);
      EXPECT_EQ(launches(d).size(), 1u) << columns << to_string(d.plan, d.input);
      EXPECT_EQ(d.input.tensor(d.id("loss")).type, DType::f32) << "the caller's";
      EXPECT_TRUE(d.of("kept").reduced_by);
    }
  }
}

TEST(ReducedStores, AreBesideValuesThatOthersRead) {
  Loss loss(32);
  const NetworkValue values = loss.values().named("values");
  const NetworkValue mean = reduced(ReduceOp::mean, values).named("mean");
  loss.net.output(mean, "loss");
  loss.net.output(-mean, "minus");
  loss.net.output(relu(gemm(values, loss.weights({32, 16}))), "y");
  const Decided d = loss.decided(32);
  const auto all = launches(d);
  EXPECT_EQ(all.size(), 3u) << to_string(d.plan, d.input);
  EXPECT_THAT(all[0], HasSubstr(", reduces 'values' to 'loss'"));
  EXPECT_FALSE(d.of("minus").reduced_by) << "the mean is an output, too";
}

TEST(ReducedStores, PoolsComeFromTheirProducers) {
  NetworkBuilder net("pools");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 12, 12});
  const NetworkValue h = relu(weights.conv(x, 32)).named("h");
  net.output(h * sigmoid(weights.conv(global_average_pool(h).named("pool"), 32, 1)), "y");
  net.output(reduced(ReduceOp::mean, weights.conv(x, 24), {2, 3}).named("means"), "z");
  const Decided d(net.build(), {{2, 16, 12, 12}}, "host groups");
  EXPECT_TRUE(d.of("pool").reduced_by) << to_string(d.plan, d.input);
  EXPECT_TRUE(d.of("z").reduced_by) << to_string(d.plan, d.input);
  EXPECT_EQ(d.input.tensor(d.id("pool")).type, DType::bf16) << "a convolution reads it";
}

// A depthwise convolution's own kernel has none, and another would be slower than that and a pool
TEST(ReducedStores, PoolsOfDepthwiseConvolutionsStayApart) {
  NetworkBuilder net("depthwise");
  Weights weights(net);
  const NetworkValue h =
      silu(conv2d(net.input("x", {2, 48, 14, 14}), weights({48, 1, 3, 3}), {.pad = 1, .groups = 48}));
  net.output(h * sigmoid(weights.conv(global_average_pool(h).named("pool"), 48, 1)), "y");
  const Decided d(net.build(), {{2, 48, 14, 14}}, "host groups");
  EXPECT_FALSE(d.of("pool").reduced_by) << to_string(d.plan, d.input);
  ASSERT_TRUE(d.of("pool").not_reduced);
  EXPECT_THAT(d.of("pool").not_reduced->first(), HasSubstr("has no reductions"));
}

// Other axes, padded columns of a maximum, what the host is asked to compute, a value of another region
TEST(ReducedStores, WhatIsNone) {
  Loss loss(12);
  loss.net.output(reduced(ReduceOp::max, loss.values()).named("largest"), "a");
  loss.net.output(reduced(ReduceOp::mean, gemm(loss.p, loss.weights({12, 16})), {1}).named("of rows"), "b");
  loss.net.output(reduced(ReduceOp::sum, layer_norm(loss.t)).named("of a norm"), "c");
  loss.net.output(reduced(ReduceOp::l2, gemm(loss.p, loss.weights({12, 16}))).named("root"), "d");
  const Decided d = loss.decided(12);
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_FALSE(d.of(name).reduced_by) << name;
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);

  Loss host(32);
  host.net.output(reduced(ReduceOp::mean, host.values()), "loss");
  const Decided on_host = host.decided(32, {"reduce_mean"});
  EXPECT_FALSE(on_host.of("loss").reduced_by);
  EXPECT_EQ(on_host.plan.host_groups.size(), 1u) << to_string(on_host.plan, on_host.input);
}

}  // namespace
}  // namespace unisono::network::gpu
