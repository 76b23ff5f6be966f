// Regions of operators on elements of any type, and the launch that each becomes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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
  EXPECT_EQ(launches.steps[2]->how, "elementwise, 4 a thread; waits for launch 1 and 2");
  EXPECT_EQ(launches.steps[2]->bytes, 2.0 * (2 * 2 * 16 * 36 + 16) + 4) << "x, scale, z and the number";
}

TEST(MapRegions, AreEpiloguesOrSinglesOfTheCpu) {
  const FusedNetwork f = fuse(chosen());
  EXPECT_THAT(kinds(f, "z"), ElementsAre("mul", "less", "select", "mul"));
  for (const Region& r : f.regions) EXPECT_TRUE(r.kind != RegionReport::Kind::single || r.operators.size() == 1);
}

// A contraction keeps its epilogue, and a normalisation its region
TEST(MapRegions, TakeNothingFromContractionsAndNormalisations) {
  NetworkBuilder net("beside");
  Weights weights(net);
  const NetworkValue c = relu(weights.conv(net.input("x", {"batch", 16, 6, 6}), 16)).named("c");  // open: no chains
  const NetworkValue f = (mapped(MapOp::floor, {c}) + 1.0).named("f");
  net.output(mapped(MapOp::sign, {layer_norm(f)}), "s");
  net.output(mapped(MapOp::ceil, {layer_norm(c).named("n")}), "t");
  const FusedNetwork fused = fuse_for_gpu(net.build());
  EXPECT_THAT(kinds(fused, "c"), ElementsAre("conv2d", "relu", "layer_norm"));
  EXPECT_THAT(kinds(fused, "f"), ElementsAre("floor", "add"));
  EXPECT_THAT(kinds(fused, "s"), ElementsAre("sign"));
  const auto f_is_made = [&](const Region& r) { return fused.network[r.outputs[0].tensor].name == "f"; };
  EXPECT_THAT(std::ranges::find_if(fused.regions, f_is_made)->note, HasSubstr("normalises"));
}

// A kernel has so many tensors
TEST(MapRegions, EndAtAsManyOperatorsAsAKernelHasTensorsFor) {
  NetworkBuilder net("long");
  NetworkValue x = mapped(MapOp::floor, {net.input("x", {"rows", 16})});  // open: no chains
  for (int i = 0; i < 20; ++i)
    x = mapped(MapOp::select, {mapped(MapOp::less, {x, net.input("a" + std::to_string(i), {"rows", 16})}), x, x * 2.0});
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

// A choice by comparisons that are made for it alone is in the kernel, and no bool in memory
TEST(ContractionRegions, TakeInChoicesByComparisons) {
  NetworkBuilder net("choices");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 6, 6}), limit = net.input("limit", {16, 1, 1});
  const NetworkValue c = weights.conv(x, 16);
  const NetworkValue inside =
      mapped(MapOp::logical_and,
             {mapped(MapOp::less, {c, limit}), mapped(MapOp::logical_not, {mapped(MapOp::greater, {c * 2.0, limit})})});
  net.output(relu(mapped(MapOp::select, {inside, c, c * 0.5})), "y");
  const NetworkValue d = weights.conv(x, 16), small = mapped(MapOp::less, {d, limit});
  net.output(mapped(MapOp::select, {small, d, limit}), "z");
  net.output(small, "small");
  const Network network = net.build();
  const FusedNetwork fused = fuse_for_gpu(network);
  EXPECT_THAT(kinds(fused, "y"),
              ElementsAre("conv2d", "less", "mul", "greater", "logical_not", "logical_and", "mul", "select", "relu"));
  EXPECT_THAT(kinds(fused, "z"), ElementsAre("less", "select")) << "the comparison is an output";
  const Decided decided(network, {{2, 16, 6, 6}, {16, 1, 1}}, "unserved epilogues");
  ASSERT_TRUE(decided.of("y").contraction);
  EXPECT_TRUE(decided.of("y").contraction->whole) << to_string(decided.plan, decided.input);
  for (const Region& r : fuse(network).regions)
    EXPECT_TRUE(r.kind == RegionReport::Kind::contraction || r.operators.size() == 1);
}

// As a loss has them: t·log p + (1 − t)·log(1 − p)
TEST(ContractionRegions, AbsorbWhatTheirSideOperandsAreMadeOf) {
  NetworkBuilder net("loss");
  Weights weights(net);
  const NetworkValue t = net.input("t", {8, 16}), u = net.input("u", {8, 16});
  const NetworkValue other = 1.0 - t, shared = 1.0 - u;
  const NetworkValue p = sigmoid(gemm(net.input("x", {8, 32}), weights({32, 16})));
  net.output(t * log(p) + other * log(1.0 - p) + shared, "y");
  net.output(relu(shared), "z");
  const Network network = net.build();
  const FusedNetwork fused = fuse_for_gpu(network);
  EXPECT_EQ(kinds(fused, "y").front(), "gemm");
  EXPECT_THAT(kinds(fused, "y"),
              UnorderedElementsAre("gemm", "sub", "sigmoid", "log", "mul", "sub", "log", "mul", "add", "add"));
  EXPECT_THAT(kinds(fused, "z"), ElementsAre("sub", "relu")) << "another region reads it, too";
  const Decided decided(network, {{8, 16}, {8, 16}, {8, 32}}, "unserved epilogues");
  EXPECT_TRUE(decided.of("y").contraction->whole) << to_string(decided.plan, decided.input);
}

}  // namespace
}  // namespace unisono::network::gpu
