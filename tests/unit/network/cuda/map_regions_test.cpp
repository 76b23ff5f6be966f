// Regions of operators on elements of any type, and the launch that each becomes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NetworkValue mapped(MapOp op, const std::vector<NetworkValue>& x, DType to = DType::f32) {
  return x[0].builder().apply(operators::Map{.op = op, .to = to}, x);
}

// Kinds of the operators of the region that makes the tensor
std::vector<std::string> kinds(const FusedNetwork& f, const std::string& name) {
  std::vector<std::string> all;
  for (const Region& r : f.regions)
    for (const RegionOutput& o : r.outputs)
      if (f.network[o.tensor].name == name)
        for (const std::size_t i : r.operators) all.push_back(to_string(f.network.operators[i].kind));
  return all;
}

// A comparison, and what chooses by it: bool is made and read within the launch
Network chosen() {
  NetworkBuilder net("chosen");
  const NetworkValue x = net.input("x", {2, 16, 6, 6}), scale = net.input("scale", {16, 1, 1});
  const NetworkValue y = mapped(MapOp::floor, {relu(x)}) * scale;
  net.output(mapped(MapOp::select, {mapped(MapOp::less, {y, x}), y, x}) * 2.0, "z");
  return net.build();
}

TEST(MapRegions, AreOneLaunchOfAllNeighbours) {
  const Network network = chosen();
  EXPECT_THAT(kinds(fuse_for_gpu(network), "z"), ElementsAre("relu", "floor", "mul", "less", "select", "mul"));
  const Decided d(network, {{2, 16, 6, 6}, {16, 1, 1}}, "host groups");
  EXPECT_THAT(d.plan.host_groups, IsEmpty()) << to_string(d.plan, d.input);
  const LaunchSequence launches = emit(d.input, d.plan);
  ASSERT_EQ(launches.steps.size(), 4u) << "two inputs, the region, the output";
  EXPECT_EQ(launches.steps[2]->what, "relu (2,16,6,6) -> (2,16,6,6), then floor, mul, less, select, mul");
  EXPECT_EQ(launches.steps[2]->how, "elementwise, 8 a thread; waits for launch 1 and 2");
  EXPECT_EQ(launches.steps[2]->bytes, 2.0 * (2 * 2 * 16 * 36 + 16)) << "x, scale and z";
}

TEST(MapRegions, AreSinglesOfTheCpu) {
  const FusedNetwork f = fuse(chosen());
  EXPECT_THAT(kinds(f, "z"), ElementsAre("mul"));
  for (const Region& r : f.regions)
    if (r.kind == RegionReport::Kind::single) EXPECT_EQ(r.operators.size(), 1u);
}

// A contraction keeps its epilogue, and a normalisation its region
TEST(MapRegions, TakeNothingFromContractionsAndNormalisations) {
  NetworkBuilder net("beside");
  Weights weights(net);
  const NetworkValue c = relu(weights.conv(net.input("x", {2, 16, 6, 6}), 16)).named("c");
  const NetworkValue f = (mapped(MapOp::floor, {c}) + 1.0).named("f");
  net.output(mapped(MapOp::sign, {layer_norm(f)}), "s");
  net.output(mapped(MapOp::ceil, {layer_norm(c).named("n")}), "t");
  const FusedNetwork fused = fuse_for_gpu(net.build());
  EXPECT_THAT(kinds(fused, "c"), ElementsAre("conv2d", "relu", "layer_norm"));
  EXPECT_THAT(kinds(fused, "f"), ElementsAre("floor", "add"));
  EXPECT_THAT(kinds(fused, "s"), ElementsAre("sign"));
  for (const Region& r : fused.regions)
    if (fused.network[r.outputs[0].tensor].name == "f") EXPECT_THAT(r.note, HasSubstr("normalises"));
}

// Of tensors that kernels have, and with several results
TEST(MapRegions, EndAtAsManyOperatorsAsAKernelHasTensorsFor) {
  NetworkBuilder net("long");
  NetworkValue x = mapped(MapOp::floor, {net.input("x", {4, 16})});
  for (int i = 0; i < 20; ++i) x = mapped(MapOp::select, {mapped(MapOp::less, {x, net.input("a" + std::to_string(i), {4, 16})}), x, x * 2.0});
  net.output(x, "y");
  const Network network = net.build();
  std::size_t longest = 0;
  for (const Region& r : fuse_for_gpu(network).regions) longest = std::max(longest, r.operators.size());
  EXPECT_EQ(longest, 15u);
  const Decided d(network, std::vector<Sizes>(21, {4, 16}), "host groups");
  EXPECT_THAT(d.plan.host_groups, IsEmpty()) << to_string(d.plan, d.input);
}

// Another region's result that needs this one's is no operand
TEST(MapRegions, MakeNoCircle) {
  NetworkBuilder net("circle");
  Weights weights(net);
  const NetworkValue f = mapped(MapOp::floor, {net.input("x", {2, 16, 6, 6})}).named("f");
  net.output(mapped(MapOp::fmod, {f, relu(weights.conv(f, 16))}), "y");
  const FusedNetwork fused = fuse_for_gpu(net.build());
  EXPECT_THAT(kinds(fused, "f"), ElementsAre("floor"));
  EXPECT_THAT(kinds(fused, "y"), ElementsAre("fmod"));
}

}  // namespace
}  // namespace unisono::network::gpu
