// In which types tensors lie in a GPU's memory, and how wide they are there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {
namespace {

using testing::HasSubstr;

NetworkValue cast(NetworkValue x, DType to) {
  return x.builder().apply(operators::Map{.op = MapOp::cast, .to = to}, {x});
}
DType type_of(const Decided& d, const std::string& name) { return d.input.tensor(d.id(name)).type; }
std::int64_t pitch_of(const Decided& d, const std::string& name) { return d.input.tensor(d.id(name)).pitch; }

TEST(MemoryTypes, AreTheNetworksButForF32) {
  NetworkBuilder net("types");
  const NetworkValue x = net.input("x", {3, 5}), i = net.input("i", {3, 5}, DType::i64);
  const NetworkValue less = net.apply(operators::Map{.op = MapOp::less}, {i, i}).named("less");
  net.output(net.apply(operators::Map{.op = MapOp::select}, {less, x, x}).named("chosen"), "y");
  net.output(cast(net.input("d", {2, 3, 5, 7}, DType::f64), DType::u8).named("bytes"), "b");
  const Decided d(net.build(), {{3, 5}, {3, 5}, {2, 3, 5, 7}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  EXPECT_EQ(type_of(d, "x"), DType::bf16);
  EXPECT_EQ(pitch_of(d, "x"), 8) << "rows of octets";
  EXPECT_EQ(type_of(d, "i"), DType::i64);
  EXPECT_EQ(pitch_of(d, "i"), 5) << "dense";
  EXPECT_EQ(type_of(d, "d"), DType::f64);
  EXPECT_EQ(pitch_of(d, "d"), 3) << "channels last";
  EXPECT_EQ(type_of(d, "less"), DType::boolean);
  EXPECT_THROW(d.input.element_tensor(d.id("i")), InternalError);
  EXPECT_NO_THROW(d.input.element_tensor(d.id("x")));

  const Interval all = all_of(d.input.tensor(d.id("i")), {3, 5});
  EXPECT_EQ(all.end() - all.begin, 3u * 5 * 8);
  for (const auto& step : emit(d.input, d.plan).steps)
    if (step->name == "input i") {
      EXPECT_EQ(step->bytes, 2 * 15 * 8) << step->how;
    }
}

// The caller's 16 bits become the element on their way, as floats of the network's own do not
TEST(MemoryTypes, ShortFloatsAtTheBorderAreElements) {
  NetworkBuilder net("casts");
  const NetworkValue x = cast(net.input("x", {2, 8}, DType::f16), DType::f32);
  net.output(cast(relu(x), DType::f16), "y");
  net.output(relu(cast(cast(relu(x * 2.0), DType::f16).named("rounded"), DType::f32)), "z");
  const Decided d(net.build(), {{2, 8}}, "host groups");
  EXPECT_EQ(type_of(d, "x"), DType::bf16);
  EXPECT_EQ(type_of(d, "y"), DType::bf16);
  EXPECT_EQ(type_of(d, "rounded"), DType::f16);
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
}

// Parts and ranges of any width are where they belong, but not of another type
TEST(MemoryTypes, PartsOfIntegersNeedNoOctets) {
  NetworkBuilder net("parts");
  const NetworkValue i = net.input("i", {4, 3}, DType::i64);
  const NetworkValue a = net.apply(operators::Map{.op = MapOp::add}, {i, i}).named("a");
  const NetworkValue b = net.apply(operators::Map{.op = MapOp::mul}, {i, i}).named("b");
  const NetworkValue both = concat({a, b}).named("both");
  const NetworkValue view = reshape(both, {8, 3}).named("view");
  net.output(net.apply(operators::Map{.op = MapOp::neg}, {view}), "y");
  net.output(net.apply(operators::Map{.op = MapOp::neg}, {both}), "z");
  const Decided d(net.build(), {{4, 3}}, "host groups");
  const auto at = [&](const char* name) { return d.input.tensor(d.id(name)).at.offset; };
  EXPECT_EQ(at("a"), at("both"));
  EXPECT_EQ(at("b"), at("both") + 3 * 8);
  EXPECT_EQ(pitch_of(d, "b"), 6);
  EXPECT_EQ(at("view"), at("both"));
}

// Heads of 8 channels each as the channels of an image: a view of rows of 8, of which no 16 columns lie together
TEST(MemoryTypes, ARangeOfAViewHasItsRowsWhereMemoryHasThem) {
  NetworkBuilder net("heads");
  const NetworkValue heads = relu(net.input("x", {1, 8, 64, 8}));
  const NetworkValue image = reshape(transpose(heads, {0, 1, 3, 2}), {1, 64, 8, 8});
  const auto part = [&](std::int64_t from, std::int64_t to) {
    return net.apply(operators::Slice{{from}, {to}, {1}, {1}}, {image});
  };
  Weights weights(net);  // contractions, so that what they read has memory
  net.output(weights.conv(part(0, 16).named("first"), 8, 1), "y");
  net.output(weights.conv(part(16, 64).named("rest"), 8, 1), "z");
  const Decided d(net.build(), {{1, 8, 64, 8}}, "host groups");
  for (const auto& [name, columns] : {std::pair{"first", 16}, {"rest", 48}})
    EXPECT_THAT(pitch_of(d, name), testing::AnyOf(columns, 64)) << to_string(d.plan, d.input);
}

// A step's sines, which are made of all digits of its number
TEST(MemoryTypes, WhatDescendsFromIntegersIsF32UntilSomethingElseJoinsIt) {
  NetworkBuilder net("embedding");
  Weights weights(net);
  const NetworkValue t = cast(net.input("t", {2}, DType::i64), DType::f32).named("step");
  const NetworkValue angle = reshape(t, {2, 1}) * weights({1, 8});
  net.output(gemm(elementwise(Op::sin, {angle}).named("sine"), weights({8, 16})), "a");
  net.output(t, "step");
  const NetworkValue bytes = cast(net.input("pixels", {2, 8}, DType::u8), DType::f32).named("bytes");
  net.output(relu(bytes), "b");
  const Decided d(net.build(), {{2}, {2, 8}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  EXPECT_EQ(type_of(d, "step"), DType::f32);
  EXPECT_EQ(type_of(d, "sine"), DType::bf16) << "a product reads it";
  EXPECT_EQ(type_of(d, "bytes"), DType::bf16) << "which holds a byte";
  ASSERT_TRUE(d.of("sine").tensors) << to_string(d.plan, d.input);
  EXPECT_THAT(d.of("sine").tensors->how(), HasSubstr("elementwise"));
}

NetworkValue sampled(NetworkValue x, NetworkValue grid) {
  return x.builder().apply(operators::GridSample{}, {x, grid});
}

// A grid in float64, of numbers that are float32 ahead of a cast
TEST(MemoryTypes, PositionsInFloat64AreMadeOfFloat32) {
  NetworkBuilder net("wide grid");
  Weights weights(net);
  const NetworkValue x = net.input("x", {1, 16, 8, 8}), offsets = net.input("offsets", {1, 8, 8, 2});
  const NetworkValue places = (offsets * 0.25 - 1.0).named("places");
  const NetworkValue wide = cast(places, DType::f64).named("wide");
  const NetworkValue grid = net.apply(operators::Map{.op = MapOp::add}, {wide, wide}).named("grid");
  net.output(sampled(x, grid), "y");
  const Decided d(net.build(), {{1, 16, 8, 8}, {1, 8, 8, 2}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  for (const char* name : {"offsets", "places"}) EXPECT_EQ(type_of(d, name), DType::f32) << name;
  for (const char* name : {"wide", "grid"}) EXPECT_EQ(type_of(d, name), DType::f64) << name;
}

// As an optical flow has them: what a convolution adds to the places at which features are sampled
TEST(MemoryTypes, PositionsAreF32WhereverTheyAreMade) {
  NetworkBuilder net("flow");
  Weights weights(net);
  const NetworkValue x = net.input("x", {1, 16, 8, 8}), base = weights({1, 2, 8, 8});
  const NetworkValue delta = weights.conv(x, 2).named("delta");
  const NetworkValue places = (base + delta).named("places");
  const NetworkValue flow = (places - base).named("flow");
  net.output(weights.conv(flow, 16), "of flow");
  net.output(weights.conv(places, 16), "of places");
  net.output(places + weights.conv(x, 2) - base, "last flow");
  const NetworkValue scaled = (places * 0.25 - 1.0).named("scaled");
  const NetworkValue grid = transpose(scaled, {0, 2, 3, 1}).named("grid");
  net.output(sampled(x, grid), "y");
  const Decided d(net.build(), {{1, 16, 8, 8}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  EXPECT_EQ(type_of(d, "delta"), DType::bf16) << "a product's sums";
  for (const char* name : {"places", "scaled", "grid"}) EXPECT_EQ(type_of(d, name), DType::f32) << name;
  EXPECT_EQ(type_of(d, "flow"), DType::bf16) << "a convolution reads it, and nothing samples there";
  EXPECT_EQ(type_of(d, "places_rounded"), DType::bf16) << "what a convolution reads of places";
  EXPECT_EQ(type_of(d, "y"), DType::bf16);
  EXPECT_EQ(&d.of("places"), &d.of("flow"));
  EXPECT_NE(&d.of("places"), &d.of("delta"));
  EXPECT_FALSE(d.of("last flow").contraction) << "which would read places in 16 bits";
  ASSERT_TRUE(d.of("places").tensors) << to_string(d.plan, d.input);
  ASSERT_TRUE(d.of("grid").tensors) << to_string(d.plan, d.input);
  ASSERT_TRUE(d.of("y").tensors) << to_string(d.plan, d.input);
}

// A grid of the caller's, the places of an affine map, and floats that become indices
TEST(MemoryTypes, PositionsComeFromInputsAffineMapsAndRounding) {
  NetworkBuilder net("places");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 8, 8}), grid = net.input("grid", {2, 4, 4, 2});
  net.output(sampled(x, grid), "y");
  const NetworkValue theta = net.input("theta", {2, 2, 3});
  const NetworkValue moved = gemm(theta, weights({3, 16})).named("moved");
  net.output(sampled(x, reshape(transpose(moved, {0, 2, 1}), {2, 4, 4, 2}).named("affine")), "z");
  const NetworkValue number = (net.input("number", {5}) * 7.0).named("number");
  const NetworkValue index = cast(elementwise(Op::abs, {number}), DType::i64);
  net.output(net.apply(operators::Gather{.axis = 0}, {weights({1000, 8}), index}), "gathered");
  net.output(cast(net.input("bytes", {5}) * 7.0, DType::u8), "of bytes");
  const Decided d(net.build(), {{2, 16, 8, 8}, {2, 4, 4, 2}, {2, 2, 3}, {5}, {5}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  for (const char* name : {"grid", "theta", "moved", "affine", "number"})
    EXPECT_EQ(type_of(d, name), DType::f32) << name;
  EXPECT_EQ(type_of(d, "bytes"), DType::bf16);
  EXPECT_EQ(type_of(d, "gathered"), DType::bf16);
  ASSERT_TRUE(d.of("moved").tensors) << to_string(d.plan, d.input);
  EXPECT_FALSE(d.of("moved").contraction);
}

// Features are no positions, though positions follow from what a product or a normalisation makes of them; what a view
// would show has the type of what it is a view of
TEST(MemoryTypes, FeaturesStayInTheElement) {
  NetworkBuilder net("features");
  Weights weights(net);
  const NetworkValue x = net.input("x", {1, 16, 8, 8});
  const NetworkValue features = relu(weights.conv(x, 16)).named("features");
  const NetworkValue offsets = weights.conv(features, 2).named("offsets");
  net.output(sampled(x, transpose(offsets, {0, 2, 3, 1}).named("grid")), "y");
  const NetworkValue normal = layer_norm(net.input("rows", {16, 8})).named("normal");
  net.output(sampled(x, reshape(normal, {1, 8, 8, 2}).named("of normal")), "z");
  const Decided d(net.build(), {{1, 16, 8, 8}, {16, 8}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  for (const char* name : {"features", "offsets", "grid", "normal", "of normal"})
    EXPECT_EQ(type_of(d, name), DType::bf16) << name;
}

// A mask may be the lowest f32, which 16 bits round to infinity: the caller's, and what becomes one, in any order
TEST(MemoryTypes, MasksOfAttentionAreF32FromTheInputOn) {
  NetworkBuilder net("masks");
  const NetworkValue q = net.input("q", {1, 2, 5, 16}), k = net.input("k", {1, 2, 16, 7});
  const auto attend = [&](NetworkValue mask) {
    const NetworkValue scores = net.apply(operators::MatMul{}, {q, k}) * 0.25 + mask;
    const NetworkValue rows = softmax(net.apply(operators::Flatten{.axis = 3}, {scores}));
    const NetworkValue weights = net.apply(operators::ReshapeLike{}, {rows, scores});
    return net.apply(operators::MatMul{}, {weights, transpose(k, {0, 1, 3, 2})});
  };
  net.output(attend(net.input("mask", {1, 1, 5, 7})), "a");
  const NetworkValue wide = net.input("wide", {1, 1, 9, 12});
  net.output(attend(net.apply(operators::Slice{{0, 2}, {5, 9}, {1, 1}, {2, 3}}, {wide})), "b");
  const NetworkValue left = net.input("left", {1, 1, 5, 4}), right = net.input("right", {1, 1, 5, 3});
  net.output(attend(net.apply(operators::Concat{.axis = 3}, {left, right}).named("joined")), "f");
  const NetworkValue keep = net.input("keep", {1, 1, 1, 7});
  net.output(attend(((1.0 - keep) * -1e38).named("computed")), "c");
  const NetworkValue biases = net.input("biases", {1, 8, 5, 7});
  Weights weights(net);
  net.output(attend(net.apply(operators::Slice{{0}, {1}, {1}, {1}}, {biases})), "d");
  net.output(weights.conv(biases, 8), "e");
  const Decided d(net.build(),
                  {{1, 2, 5, 16},
                   {1, 2, 16, 7},
                   {1, 1, 5, 7},
                   {1, 1, 9, 12},
                   {1, 1, 5, 4},
                   {1, 1, 5, 3},
                   {1, 1, 1, 7},
                   {1, 8, 5, 7}},
                  "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  for (const char* name : {"mask", "wide", "left", "right", "joined", "keep", "computed"})
    EXPECT_EQ(type_of(d, name), DType::f32) << name;
  EXPECT_EQ(type_of(d, "biases"), DType::bf16) << "a convolution reads it";
  EXPECT_EQ(type_of(d, "q"), DType::bf16);
}

}  // namespace
}  // namespace unisono::network::gpu
