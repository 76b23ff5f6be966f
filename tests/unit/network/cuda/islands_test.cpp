// What a model computes in f32 between its casts is stored in f32 on a GPU wherever a reader needs all digits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {
namespace {

using testing::HasSubstr;

// Tensors of islands by name; rounded() ends one
struct IslandModel {
  NetworkBuilder net{"islands"};
  Weights weights{net};

  NetworkValue short_input(const std::string& name, Shape shape) {
    return to(net.input(name, std::move(shape), DType::bf16), DType::f32);
  }
  static NetworkValue to(NetworkValue x, DType type) {
    return x.builder().apply(operators::Map{.op = MapOp::cast, .to = type}, {x});
  }
  static NetworkValue rounded(NetworkValue x) { return to(to(x, DType::bf16), DType::f32); }
  static NetworkValue matmul(NetworkValue a, NetworkValue b) { return a.builder().apply(operators::MatMul{}, {a, b}); }
  static NetworkValue reduced(ReduceOp op, NetworkValue x, int axis) {
    return x.builder().apply(operators::Reduce{.op = op, .axes = {axis}}, {x});
  }
  Network build(const std::vector<std::string>& kept) {
    Network n = net.build();
    for (const std::string& name : kept) {
      const auto tensor = std::ranges::find(n.tensors, name, &NetworkTensor::name);
      if (tensor == n.tensors.end()) throw UserError("there is no tensor " + name);
      tensor->keeps_f32 = true;
    }
    return n;
  }
};

DType stored_as(const Decided& d, const std::string& name) { return d.input.tensor(d.id(name)).type; }
bool is_there(const Decided& d, const std::string& name) {
  return std::ranges::any_of(d.network().operators,
                             [&](const Operator& op) { return d.network()[op.output].name == name; });
}

// As EfficientViT has it: sums over all pixels of products of 16 bits
TEST(Islands, LinearAttentionIsF32) {
  IslandModel m;
  const NetworkValue q = m.short_input("q", {4, 64, 16}), k = m.short_input("k", {4, 64, 16});
  const NetworkValue v = m.short_input("v", {4, 64, 24});
  const NetworkValue turned = transpose(relu(k), {0, 2, 1}).named("turned");
  const NetworkValue kv = IslandModel::matmul(turned, v).named("kv");
  const NetworkValue out = IslandModel::matmul(q, kv).named("out");
  const NetworkValue whole = elementwise(Op::div, {out, IslandModel::reduced(ReduceOp::sum, out, 2).named("sum")});
  const NetworkValue y = IslandModel::rounded(whole.named("whole")).named("rounded");
  m.net.output(relu(y), "y");
  const Decided d(m.build({"turned", "kv", "out", "sum", "whole"}), {{4, 64, 16}, {4, 64, 16}, {4, 64, 24}},
                  "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  EXPECT_EQ(stored_as(d, "turned"), DType::bf16) << "moved values of 16 bits";
  for (const char* name : {"kv", "out", "sum"}) EXPECT_EQ(stored_as(d, name), DType::f32) << name;
  EXPECT_FALSE(is_there(d, "rounded")) << "whoever stores the quotient rounds it";
}

// One kernel computes it in f32, and what it reads and writes has 16 bits
TEST(Islands, ANormalisationBetweenCastsStaysOneLaunchOfTheElement) {
  IslandModel m;
  const NetworkValue x = m.short_input("x", {8, 32});
  const NetworkValue norm = layer_norm(x).named("norm");
  m.net.output(gemm(IslandModel::rounded(norm), m.weights({32, 16})), "y");
  const Decided d(m.build({"norm"}), {{8, 32}}, "host groups");
  EXPECT_EQ(stored_as(d, "norm"), DType::bf16);
  EXPECT_TRUE(d.plan.host_groups.empty());
  EXPECT_EQ(d.network().operators.size(), 2u) << to_string(d.network());  // the norm, the product
}

// A sum in f32 that a normalisation reads, and the next sum
TEST(Islands, KernelsOfNormalisationsReadAndWriteF32) {
  IslandModel m;
  const NetworkValue x = m.short_input("x", {8, 32}), y = m.short_input("y", {8, 32});
  const NetworkValue sum = (x * y).named("sum"), norm = softmax(sum).named("norm");
  const NetworkValue scores = IslandModel::reduced(ReduceOp::sum, norm, 1).named("scores");
  m.net.output(IslandModel::rounded((scores * sum).named("scaled")), "z");
  const Decided d(m.build({"sum", "norm", "scores", "scaled"}), {{8, 32}, {8, 32}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  for (const char* name : {"norm", "scores"}) EXPECT_EQ(stored_as(d, name), DType::f32) << name;
  EXPECT_FALSE(d.of("norm").tensors) << "a kernel of its graph";
}

TEST(Islands, NormalisationsOverRowsOfNoOctetsAreWrittenOut) {
  IslandModel m;
  const NetworkValue x = m.short_input("x", {8, 30}), y = m.short_input("y", {8, 30});
  const NetworkValue norm = layer_norm((x * y).named("sum")).named("norm");
  m.net.output(IslandModel::reduced(ReduceOp::sum, norm, 1), "all");
  const Decided d(m.build({"sum", "norm", "all"}), {{8, 30}, {8, 30}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  EXPECT_EQ(stored_as(d, "norm"), DType::f32);
  for (const Operator& op : d.network().operators)
    EXPECT_FALSE(std::holds_alternative<operators::Normalisation>(op.kind)) << op.name;
}

// By weights that 16 bits do not hold, of values that they do not hold either
TEST(Islands, ProductsAndConvolutionsAreF32) {
  IslandModel m;
  const NetworkValue x = m.short_input("x", {1, 8, 6, 6});
  const NetworkValue squares = (x * x).named("squares"), image = m.weights.conv(squares, 8).named("image");
  const NetworkValue pooled = global_average_pool(image).named("pooled");
  const NetworkValue logits = gemm(flatten(pooled).named("flat"), m.weights({10, 8}), {.transpose_b = true});
  m.net.output(logits.named("logits"), "y");
  const Decided d(m.build({"squares", "image", "pooled", "flat", "y"}), {{1, 8, 6, 6}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  for (const char* name : {"squares", "image", "pooled", "y"}) EXPECT_EQ(stored_as(d, name), DType::f32) << name;
  for (const Region& r : d.input.fused.regions) EXPECT_NE(r.kind, RegionReport::Kind::contraction);
}

// What the kernel of a contraction computes of its sums, and stores rounded, is as it was
TEST(Islands, EpiloguesThatEndInARoundingStayInTheirKernel) {
  IslandModel m;
  const NetworkValue x = m.short_input("x", {1, 16, 8, 8});
  const NetworkValue image = m.weights.conv(x, 16).named("image");
  const NetworkValue gate = elementwise(Op::sigmoid, {image}).named("gate"), gated = (image * gate).named("gated");
  m.net.output(m.weights.conv(IslandModel::rounded(gated), 8), "y");
  const Decided d(m.build({"gate", "gated"}), {{1, 16, 8, 8}}, "host groups");
  EXPECT_TRUE(d.of("gated").contraction) << to_string(d.plan, d.input);
  EXPECT_EQ(stored_as(d, "gated"), DType::bf16);
}

// A cast to the other type of 16 bits is one
TEST(Islands, OtherRoundingsReadF32) {
  IslandModel m;
  const NetworkValue x = m.short_input("x", {8, 32});
  const NetworkValue squares = (x * x).named("squares");
  const NetworkValue half = IslandModel::to(squares, DType::f16).named("half");
  m.net.output(relu(IslandModel::to(half, DType::f32)), "y");
  const Decided d(m.build({"squares"}), {{8, 32}}, "host groups");
  EXPECT_TRUE(d.plan.host_groups.empty()) << to_string(d.plan, d.input);
  EXPECT_EQ(stored_as(d, "squares"), DType::f32);
  EXPECT_EQ(stored_as(d, "half"), DType::f16);
}

}  // namespace
}  // namespace unisono::network::gpu
