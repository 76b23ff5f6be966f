// Which regions run on the host together, what crosses, and the network that they become.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/cuda/emit/host_network.hpp"

namespace unisono::network::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names(const Decided& d, const std::vector<TensorId>& ids) {
  std::vector<std::string> all;
  for (const TensorId id : ids) all.push_back(d.network()[id].name);
  return all;
}

// Kinds of a group's operators
std::vector<std::string> kinds(const Decided& d, const HostGroup& group) {
  std::vector<std::string> all;
  for (const std::size_t i : group.operators) all.push_back(to_string(d.network().operators[i].kind));
  return all;
}

// Operators that the host computes here, whichever kernels there are
const std::vector<std::string> on_host{"upper_triangle", "less", "select", "cast", "expand"};

NetworkValue part_of(NetworkValue x) { return x.builder().apply(operators::Triangle{}, {x}); }
NetworkValue cast(NetworkValue x, DType to) {
  return x.builder().apply(operators::Map{.op = MapOp::cast, .to = to}, {x});
}

TEST(HostGroups, NeighboursAreOneAndWhatIsLaunchedDividesThem) {
  NetworkBuilder net("neighbours");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 6, 6});
  const NetworkValue a = part_of(part_of(relu(x)).named("first")).named("second");
  net.output(part_of(weights.conv(a, 16).named("c")), "y");
  const Decided d(net.build(), {{2, 16, 6, 6}}, "host groups", on_host);
  ASSERT_EQ(d.plan.host_groups.size(), 2u) << to_string(d.plan, d.input);
  const auto& [first, second] = std::tie(d.plan.host_groups[0], d.plan.host_groups[1]);
  EXPECT_THAT(kinds(d, first), ElementsAre("upper_triangle", "upper_triangle"));
  EXPECT_EQ(first.inputs.size(), 1u);
  EXPECT_THAT(names(d, first.outputs), ElementsAre("second")) << "the other is read within the step alone";
  EXPECT_THAT(kinds(d, second), ElementsAre("upper_triangle"));
  EXPECT_THAT(names(d, second.inputs), ElementsAre("c"));
  EXPECT_THAT(names(d, second.outputs), ElementsAre("y"));
}

// Comparisons and choices, whose tensors are no f32: what is made and read within a step never crosses
TEST(HostGroups, TensorsOfAnyTypeStayWithinAStep) {
  NetworkBuilder net("types");
  // of an open extent, so that they are no chain
  const NetworkValue x = transpose(net.input("x", {"n", 2}), {1, 0}), y = transpose(net.input("y", {"n", 2}), {1, 0});
  const NetworkValue less = net.apply(operators::Map{.op = MapOp::less}, {x, y});
  net.output(transpose(net.apply(operators::Map{.op = MapOp::select}, {less, x, y}).named("chosen"), {1, 0}), "z");
  const Decided d(net.build(), {{16, 2}, {16, 2}}, "host groups", on_host);
  ASSERT_EQ(d.plan.host_groups.size(), 1u) << to_string(d.plan, d.input);
  const HostGroup& group = d.plan.host_groups[0];
  EXPECT_EQ(group.inputs.size(), 2u);
  EXPECT_THAT(names(d, group.outputs), ElementsAre("chosen"));
  EXPECT_THAT(to_string(d.plan, d.input), HasSubstr("host step of 2 operators: reads "));
}

// Integers go from step to step and to the caller
TEST(HostGroups, TensorsThatAreNoF32GoFromStepToStepAndToTheCaller) {
  NetworkBuilder net("integers");
  const NetworkValue x = net.input("x", {2, 16}), n = net.input("n", {2, 16}, DType::i64);
  const NetworkValue i = cast(transpose(x, {1, 0}), DType::i64);
  const NetworkValue g = transpose(cast(i, DType::f32).named("f"), {1, 0}).named("g");
  net.output(net.apply(operators::Map{.op = MapOp::add}, {cast(g, DType::i64), n}), "sum");
  net.output(i, "i");
  const Decided d(net.build(), {{2, 16}, {2, 16}}, "host groups", on_host);
  ASSERT_EQ(d.plan.host_groups.size(), 2u) << to_string(d.plan, d.input);
  const auto& [first, second] = std::tie(d.plan.host_groups[0], d.plan.host_groups[1]);
  EXPECT_THAT(names(d, first.to_kernels), ElementsAre("f"));
  EXPECT_THAT(names(d, second.from_kernels), ElementsAre("g"));
  EXPECT_TRUE(second.to_kernels.empty());
  EXPECT_EQ(d.plan.host_only, (std::set<TensorId>{d.id("n"), d.id("sum"), d.id("i")}));
}

// The caller's tensors that only steps read and make pass the kernels by, of whatever rank and type
TEST(HostGroups, WhatOnlyStepsReadAndMakeIsNotLaunched) {
  NetworkBuilder net("callers");
  net.output(part_of(net.input("x", {2, 1, 3, 1, 4})), "y");
  const Decided d(net.build(), {{2, 1, 3, 1, 4}}, "host groups", on_host);
  const LaunchSequence launches = emit(d.input, d.plan);
  EXPECT_TRUE(launches.steps.empty());
  ASSERT_EQ(launches.host.size(), 1u);
  EXPECT_THAT(launches.host[0].inputs[0].callers, ElementsAre(0u));
  EXPECT_THAT(launches.host[0].outputs[0].callers, ElementsAre(1u));
  EXPECT_FALSE(launches.host[0].inputs[0].staged || launches.host[0].outputs[0].staged);
  EXPECT_EQ(launches.staging_bytes, 0u);
}

// A view of what the step makes belongs to it, and needs no memory of the kernels but that of what it views
TEST(HostGroups, ViewsAndConcatenationsAreWithinTheStepThatMakesTheirParts) {
  NetworkBuilder net("views");
  const NetworkValue x = relu(net.input("x", {4, 16})).named("x1");
  const NetworkValue made = part_of(x).named("made");
  const NetworkValue view = reshape(made, {8, 8}).named("view");
  net.output(relu(part_of(view)), "inside");
  net.output(relu(view), "outside");
  const Decided d(net.build(), {{4, 16}}, "host groups", on_host);
  ASSERT_EQ(d.plan.host_groups.size(), 1u) << to_string(d.plan, d.input);
  const HostGroup& group = d.plan.host_groups[0];
  EXPECT_THAT(kinds(d, group), ElementsAre("upper_triangle", "reshape", "upper_triangle"));
  EXPECT_THAT(names(d, group.inputs), ElementsAre("x1"));
  ASSERT_EQ(group.outputs.size(), 2u);
  EXPECT_THAT(names(d, group.to_kernels),
              testing::AllOf(testing::Contains("made"), testing::Not(testing::Contains("view"))));

  NetworkBuilder parts("parts");
  const NetworkValue p = relu(parts.input("x", {2, 16, 4, 4}));
  const NetworkValue q = part_of(p).named("q"), r = relu(p * 2.0).named("r");
  const NetworkValue whole = concat({q, r}).named("whole");
  parts.output(max_pool(whole), "y");
  const Decided c(parts.build(), {{2, 16, 4, 4}}, "host groups", on_host);
  ASSERT_EQ(c.plan.host_groups.size(), 1u) << to_string(c.plan, c.input);
  EXPECT_THAT(kinds(c, c.plan.host_groups[0]), ElementsAre("upper_triangle")) << "kernels read the concatenation";
  EXPECT_THAT(names(c, c.plan.host_groups[0].outputs), ElementsAre("q"));
}

// Nothing is read of the tensor that gives an expansion its extents
TEST(HostGroups, ExtentsCrossWithoutElements) {
  NetworkBuilder net("extents");
  const NetworkValue x = relu(net.input("x", {1, 1, 1, 1, 1, 3})), like = net.input("like", {2, 2, 2, 2, 2, 3});
  net.output(relu(net.apply(operators::Expand{}, {x, like})), "y");
  net.output(relu(like), "z");
  Decided d(net.build(), {{1, 1, 1, 1, 1, 3}, {2, 2, 2, 2, 2, 3}}, "host groups", on_host);
  ASSERT_EQ(d.plan.host_groups.size(), 1u) << to_string(d.plan, d.input);
  EXPECT_EQ(d.plan.host_groups[0].inputs.size(), 1u);
  EXPECT_THAT(names(d, d.plan.host_groups[0].shapes), ElementsAre("like"));
  HostPlaces places(3);
  const HostStep step = host_step(d.input, d.plan, d.plan.host_groups[0], places);
  ASSERT_EQ(step.inputs.size(), 2u);
  EXPECT_EQ(step.inputs[0].bytes, 3 * sizeof(float));
  EXPECT_EQ(step.inputs[1].bytes, 0u);
  EXPECT_EQ(step.inputs[1].shape, (Sizes{2, 2, 2, 2, 2, 3}));
  EXPECT_EQ(step.outputs[0].strides, (Sizes{48, 24, 12, 6, 3, 1}));
  EXPECT_NO_THROW(verify(step.network));
}

TEST(HostGroups, AConvolutionThatUpsamplesItsImageIsTwoOperatorsThere) {
  NetworkBuilder net("upsampled");
  Weights weights(net);
  net.output(weights.conv(upsample(net.input("x", {2, 16, 6, 5})), 16), "y");
  Decided d(net.build(), {{2, 16, 6, 5}}, "host groups", on_host);
  ASSERT_TRUE(std::holds_alternative<operators::UpsampledConv2d>(d.network().operators[0].kind));
  const HostGroup group{.operators = {0}, .inputs = {d.id("x")}, .outputs = {d.id("y")}};
  HostPlaces places(2);
  const Network there = host_step(d.input, d.plan, group, places).network;
  ASSERT_EQ(there.operators.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<operators::Resize>(there.operators[0].kind));
  EXPECT_TRUE(std::holds_alternative<operators::Conv2d>(there.operators[1].kind));
  EXPECT_NO_THROW(verify(there));
}

TEST(HostGroups, AreSegmentsOfTheLaunchSequence) {
  NetworkBuilder net("segments");
  const NetworkValue x = net.input("x", {2, 16, 6, 6});
  const NetworkValue a = part_of(relu(x)), b = part_of(relu(a)), c = part_of(relu(b));
  net.output(relu(c), "y");
  Decided d(net.build(), {{2, 16, 6, 6}}, "host groups", on_host);
  const LaunchSequence launches = emit(d.input, d.plan);
  // input, relu, to host; from host, relu, to host; twice; from host, relu, output
  EXPECT_THAT(launches.cuts, ElementsAre(3u, 6u, 9u));
  ASSERT_EQ(launches.host.size(), 3u);
  const std::size_t bytes = 2 * 16 * 36 * sizeof(float);
  EXPECT_EQ(launches.staging_bytes, 4 * bytes) << "two steps in turn, inputs and outputs";
  EXPECT_EQ(launches.host_bytes, 6 * bytes);
  const auto staged = [&](std::size_t step) { return launches.host[step].inputs[0].staged.value().offset; };
  EXPECT_EQ(staged(0), staged(2));
  EXPECT_EQ(staged(1), 2 * bytes);
  EXPECT_EQ(launches.host[1].inputs[0].strides, (Sizes{576, 1, 96, 16})) << "channels last";
  for (std::size_t i = 0; i < launches.after.size(); ++i)
    for (const std::size_t j : launches.after[i]) EXPECT_EQ(i / 3, j / 3) << "nothing waits across a host step";
  const auto order = launches.in_order();
  ASSERT_EQ(order.size(), launches.steps.size() + 3);
  EXPECT_TRUE(order[3]->on_host && order[7]->on_host && order[11]->on_host);
  EXPECT_THAT(order[3]->how,
              HasSubstr("host step: UNISONO_HOST_STEPS names upper_triangle; 4608 bytes there, 4608 bytes back"));
  EXPECT_THAT(launches.unserved(), testing::Each(HasSubstr("UNISONO_HOST_STEPS names upper_triangle")));
}

TEST(HostGroups, ANetworkWithoutThemHasOneSegment) {
  NetworkBuilder net("kernels");
  Weights weights(net);
  net.output(relu(weights.conv(net.input("x", {2, 16, 8, 8}), 16)), "y");
  Decided d(net.build(), {{2, 16, 8, 8}}, "host groups", on_host);
  const LaunchSequence launches = emit(d.input, d.plan);
  EXPECT_THAT(launches.cuts, IsEmpty());
  EXPECT_THAT(launches.host, IsEmpty());
  EXPECT_EQ(launches.staging_bytes, 0u);
}

}  // namespace
}  // namespace unisono::network::gpu
