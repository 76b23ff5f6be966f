/// What is recognised as attention, where it finds its matrices, and what is none.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cases.hpp"
#include "network/regions.hpp"

namespace unisono {
namespace {

using operators::Attention;
using operators::MatrixAxis;

struct AttentionForms : testing::Test {
  test::Random random{7};
  NetworkBuilder net;

  NetworkValue weights(std::vector<std::int64_t> shape) {
    return net.constant("w", Shape(shape.begin(), shape.end()), test::random_elements(random, element_count(shape)));
  }
  NetworkValue multiply(NetworkValue a, NetworkValue b) { return net.apply(operators::MatMul{}, {a, b}); }
  NetworkValue range(NetworkValue x, int axis, std::int64_t from, std::int64_t to) {
    return net.apply(operators::Slice{{from}, {to}, {1}, {axis}}, {x});
  }
  NetworkValue softmax_of_rows(NetworkValue x) {
    const NetworkValue rows = net.apply(operators::Flatten{.axis = static_cast<int>(x.shape().size()) - 1}, {x});
    return net.apply(operators::ReshapeLike{}, {softmax(rows), x});
  }
  NetworkValue heads(NetworkValue x) { return transpose(reshape(x, {2, 6, 4, 8}), {0, 2, 1, 3}); }
  NetworkValue keys(NetworkValue x) { return transpose(heads(x), {0, 1, 3, 2}); }
  NetworkValue merged(NetworkValue y) { return reshape(transpose(y, {0, 2, 1, 3}), {2, 6, 32}); }

  // The only Attention of what it is rewritten to, in which neither product, softmax nor permute is left
  Attention only() {
    const Network n = network::with_attention(net.build(), 256);
    std::optional<Attention> found;
    inputs.clear();
    for (const Operator& op : n.operators) {
      EXPECT_FALSE(std::holds_alternative<operators::MatMul>(op.kind) ||
                   std::holds_alternative<operators::Softmax>(op.kind) ||
                   std::holds_alternative<operators::Transpose>(op.kind))
          << to_string(n);
      const auto* a = std::get_if<Attention>(&op.kind);
      if (a == nullptr) continue;
      EXPECT_FALSE(found) << to_string(n);
      found = *a;
      for (const TensorId id : op.inputs) inputs.push_back(n[id].name);
      const auto shape = [&](TensorId id) { return &n[id]; };
      std::vector<const NetworkTensor*> tensors;
      for (const TensorId id : op.inputs) tensors.push_back(shape(id));
      EXPECT_EQ(infer_shape(op.kind, tensors, "attention"), n[op.output].shape);
    }
    if (!found) ADD_FAILURE() << to_string(n);
    return found.value_or(Attention{});
  }
  int found() {
    int count = 0;
    for (const Operator& op : network::with_attention(net.build(), 256).operators)
      count += std::holds_alternative<Attention>(op.kind) ? 1 : 0;
    return count;
  }
  std::vector<std::string> inputs;
};

// A row of the lowest f32 has equal weights; 16 bits would round that to minus infinity, of which it has none
TEST_F(AttentionForms, ComputedMasksAreF32InMemory) {
  const NetworkValue x = net.input("x", {2, 6, 32}), seen = net.input("seen", {2, 1, 1, 6});
  const NetworkValue sees = net.apply(operators::Map{MapOp::greater}, {seen, net.constant(0.5)});
  const NetworkValue lowest = net.constant(std::numeric_limits<float>::lowest());
  const NetworkValue mask = net.apply(operators::Map{MapOp::select}, {sees, net.constant(0.0), lowest}).named("mask");
  net.output(merged(multiply(softmax_of_rows(multiply(heads(x), keys(x)) + mask), heads(x))), "y");
  network::MemoryStyle style;
  style.element_bytes = 2, style.column_multiple = 8, style.widest_head = 256, style.maps = true;
  const network::FusedNetwork f = network::fuse(net.build(), true, style);
  int masks = 0;
  for (TensorId id = 0; id < f.network.tensors.size(); ++id) {
    if (f.network[id].dtype != DType::f32) continue;
    EXPECT_EQ(f.own_type[id], f.network[id].name == "mask") << f.network[id].name;
    masks += f.own_type[id] ? 1 : 0;
  }
  EXPECT_EQ(masks, 1);
}

// x (2,6,96) holds q, k and v of 4 heads of 8 columns
TEST_F(AttentionForms, PackedColumnsAreReadWhereTheyLie) {
  const NetworkValue x = net.input("x", {2, 6, 96});
  const NetworkValue parts = transpose(reshape(x, {2, 6, 3, 4, 8}), {2, 0, 3, 1, 4});
  const auto part = [&](std::int64_t i) { return reshape(range(parts, 0, i, i + 1), {2, 4, 6, 8}); };
  const NetworkValue scores = multiply(part(0) * 0.5, transpose(part(1) * 0.5, {0, 1, 3, 2})) * 2.0;
  net.output(merged(multiply(softmax_of_rows(scores), part(2))), "y");
  const Attention a = only();
  EXPECT_EQ(inputs, (std::vector<std::string>{"x", "x", "x"}));
  EXPECT_EQ(a.extents, (std::vector<std::int64_t>{2, 4, 6, 6, 8, 8}));
  EXPECT_FLOAT_EQ(static_cast<float>(a.scale), 0.5F);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a.operands[i].begin, (std::vector<std::int64_t>{0, 0, 32 * static_cast<std::int64_t>(i)})) << i;
    EXPECT_EQ(a.operands[i].axes, (std::vector<MatrixAxis>{{0, 1}, {2, 8}, {1, 1}, {2, 1}})) << i;
  }
  EXPECT_EQ(a.result.axes, (std::vector<MatrixAxis>{{0, 1}, {2, 8}, {1, 1}, {2, 1}}));
}

// As Swin V2 scales its scores: a number for each head
TEST_F(AttentionForms, AFactorOfEachHeadMultipliesQueries) {
  const NetworkValue x = net.input("x", {2, 6, 32});
  const NetworkValue scores = multiply(heads(x), keys(x)) * weights({4, 1, 1}) + weights({4, 6, 6});
  net.output(merged(multiply(softmax_of_rows(scores), heads(x))), "y");
  EXPECT_EQ(found(), 0);
  const Network n = network::with_attention(network::with_factors_of_queries(net.build()), 256);
  EXPECT_EQ(
      std::ranges::count_if(n.operators, [](const Operator& o) { return std::holds_alternative<Attention>(o.kind); }),
      1)
      << to_string(n);
  EXPECT_TRUE(std::ranges::none_of(n.operators, [](const Operator& o) {
    return std::holds_alternative<operators::MatMul>(o.kind);
  })) << to_string(n);
}

// A factor of each row is none of a matrix, and scores that others read stay as they are
TEST_F(AttentionForms, OtherFactorsStayWithTheScores) {
  const NetworkValue x = net.input("x", {2, 6, 32});
  const NetworkValue scores = multiply(heads(x), keys(x));
  net.output(softmax_of_rows(scores * weights({4, 6, 1})), "rows");
  net.output(softmax_of_rows(scores * weights({4, 1, 1})), "shared");
  net.output(multiply(heads(x), keys(x)) * weights({4, 1, 1}), "no scores");
  const Network before = net.build();
  EXPECT_EQ(to_string(network::with_factors_of_queries(before)), to_string(before));
}

// q, k and v of one tensor are one product, whatever its rows; attention reads the columns of each
TEST_F(AttentionForms, ProductsOfOneTensorAreStacked) {
  const NetworkValue x = net.input("x", {2, 600, 32});
  const auto product = [&] { return gemm(x, weights({32, 32})) + weights({32}); };
  const auto split = [&](NetworkValue v) { return transpose(reshape(v, {2, 600, 4, 8}), {0, 2, 1, 3}); };
  const NetworkValue q = split(product()), k = transpose(split(product()), {0, 1, 3, 2}), v = split(product());
  net.output(reshape(transpose(multiply(softmax_of_rows(multiply(q, k)), v), {0, 2, 1, 3}), {2, 600, 32}), "y");
  network::MemoryStyle style;
  style.element_bytes = 2, style.column_multiple = 8, style.widest_head = 256, style.column_ranges = true;
  const network::FusedNetwork f = network::fuse(net.build(), true, style);
  const auto contracts = [](const network::Region& r) { return r.kind == RegionReport::Kind::contraction; };
  EXPECT_EQ(std::ranges::count_if(f.regions, contracts), 1) << to_string(f.network);
}

TEST_F(AttentionForms, MatricesOfRank3AndSharedKeys) {
  const NetworkValue q = net.input("q", {2, 6, 32}), k = net.input("k", {2, 6, 16}), v = net.input("v", {2, 6, 16});
  const auto batched = [&](NetworkValue x) { return reshape(x, {8, 6, 8}); };
  const auto shared = [&](NetworkValue x) {  // two heads of queries to a head of keys
    const NetworkValue own = reshape(transpose(reshape(x, {2, 6, 2, 8}), {0, 2, 1, 3}), {2, 2, 1, 6, 8});
    return batched(net.apply(operators::Expand{}, {own, weights({2, 2, 2, 6, 8})}));
  };
  const NetworkValue scores = multiply(batched(heads(q)), transpose(shared(k), {0, 2, 1})) * 0.3;
  const NetworkValue y = multiply(softmax(scores), shared(v));
  net.output(merged(reshape(y, {2, 4, 6, 8})), "y");
  const Attention a = only();
  EXPECT_EQ(a.extents, (std::vector<std::int64_t>{2, 2, 2, 6, 6, 8, 8}));
  EXPECT_EQ(a.operands[0].axes, (std::vector<MatrixAxis>{{0, 1}, {2, 16}, {2, 8}, {1, 1}, {2, 1}}));
  EXPECT_EQ(a.operands[1].axes, (std::vector<MatrixAxis>{{0, 1}, {2, 8}, {-1, 0}, {1, 1}, {2, 1}}));
}

TEST_F(AttentionForms, MasksAndGuards) {
  const NetworkValue x = net.input("x", {2, 6, 32}), mask = net.input("mask", {2, 1, 1, 6});
  const NetworkValue seen = net.input("seen", {1, 1, 6, 6}, DType::boolean);
  const NetworkValue scores = multiply(heads(x), keys(x)) / net.constant(4.0) + mask;
  const NetworkValue low = net.constant(-std::numeric_limits<double>::infinity());
  const NetworkValue p = softmax_of_rows(net.apply(operators::Map{MapOp::select}, {seen, scores, low}));
  const NetworkValue nan =
      net.apply(operators::Map{MapOp::logical_not}, {net.apply(operators::Map{MapOp::equal}, {p, p})});
  net.output(merged(multiply(net.apply(operators::Map{MapOp::select}, {nan, net.constant(0.0), p}), heads(x))), "y");
  const Attention a = only();
  EXPECT_EQ(a.guard, Attention::Guard::all);
  EXPECT_EQ(a.replaces, (std::vector<bool>{false, true}));
  EXPECT_EQ(inputs, (std::vector<std::string>{"x", "x", "x", "mask", "seen_mask"}));
  EXPECT_DOUBLE_EQ(a.scale, 0.25);
  EXPECT_EQ(a.operands[3].axes, (std::vector<MatrixAxis>{{0, 1}, {-1, 0}, {-1, 0}, {3, 1}}));
  EXPECT_EQ(a.operands[4].axes, (std::vector<MatrixAxis>{{-1, 0}, {-1, 0}, {2, 1}, {3, 1}}));
}

// Windows: a mask of each window, added to the scores with windows as an axis of their own
TEST_F(AttentionForms, AMaskInAnotherShapeThanTheScores) {
  const NetworkValue x = net.input("x", {6, 6, 32});  // three windows of two images
  const auto own = [&] { return transpose(reshape(x, {6, 6, 4, 8}), {0, 2, 1, 3}); };
  const NetworkValue scores = multiply(own(), transpose(own(), {0, 1, 3, 2})) + weights({1, 4, 6, 6});
  const NetworkValue windows = reshape(scores, {2, 3, 4, 6, 6}) + weights({1, 3, 1, 6, 6});
  const NetworkValue p = softmax_of_rows(reshape(windows, {6, 4, 6, 6}));
  net.output(reshape(transpose(multiply(p, own()), {0, 2, 1, 3}), {6, 6, 32}), "y");
  const Attention a = only();
  EXPECT_EQ(a.extents, (std::vector<std::int64_t>{2, 3, 4, 6, 6, 8, 8}));
  EXPECT_EQ(a.operands[0].axes, (std::vector<MatrixAxis>{{0, 3}, {0, 1}, {2, 8}, {1, 1}, {2, 1}}));
  EXPECT_EQ(a.operands[3].axes, (std::vector<MatrixAxis>{{-1, 0}, {-1, 0}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(a.operands[4].axes, (std::vector<MatrixAxis>{{-1, 0}, {1, 1}, {-1, 0}, {3, 1}, {4, 1}}));
}

TEST_F(AttentionForms, OpenExtents) {
  const NetworkValue x = net.input("x", {"batch", "rows", 32}), text = net.input("text", {"batch", 7, 32});
  const auto own = [&](NetworkValue v) { return transpose(reshape(v, {0, 0, 4, 8}), {0, 2, 1, 3}); };
  const NetworkValue scores = multiply(own(x), transpose(own(text), {0, 1, 3, 2}));
  net.output(reshape(transpose(multiply(softmax_of_rows(scores), own(text)), {0, 2, 1, 3}), {0, 0, 32}), "y");
  EXPECT_EQ(only().extents, (std::vector<std::int64_t>{0, 4, 0, 7, 8, 8}));
}

struct NoAttention : AttentionForms {
  NetworkValue x = net.input("x", {2, 6, 32});
  NetworkValue scores() { return multiply(heads(x), keys(x)); }
};

TEST_F(NoAttention, SoftmaxOverQueries) {
  const NetworkValue p = softmax_of_rows(transpose(scores(), {0, 1, 3, 2}));
  net.output(multiply(transpose(p, {0, 1, 3, 2}), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, SoftmaxOverHeads) {
  net.output(multiply(softmax(scores()), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, WeightsThatAreTurned) {
  net.output(multiply(transpose(softmax_of_rows(scores()), {0, 1, 3, 2}), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, WeightsOnTheRight) {
  net.output(multiply(keys(x), softmax_of_rows(scores())), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, ScoresThatOthersRead) {
  const NetworkValue s = scores();
  net.output(multiply(softmax_of_rows(s), heads(x)), "y");
  net.output(tanh(s), "scores");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, WeightsThatAreAnOutput) {
  const NetworkValue p = softmax_of_rows(scores());
  net.output(multiply(p, heads(x)), "y");
  net.output(p, "weights");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, MasksThatAreScaled) {
  net.output(multiply(softmax_of_rows((scores() + weights({6, 6})) * 0.5), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, ScoresBehindAnotherFunction) {
  net.output(multiply(softmax_of_rows(tanh(scores())), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, ScaledByNegativeNumbers) {
  net.output(multiply(softmax_of_rows(scores() * -1.0), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, ThreeMasks) {
  net.output(multiply(softmax_of_rows(scores() + weights({6, 6}) + weights({4, 6, 6}) + weights({6})), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, ChoicesOfOrdinaryNumbers) {
  const NetworkValue seen = net.input("seen", {6, 6}, DType::boolean);
  const NetworkValue s = net.apply(operators::Map{MapOp::select}, {seen, scores(), net.constant(-5.0)});
  net.output(multiply(softmax_of_rows(s), heads(x)), "y");
  EXPECT_EQ(found(), 0);
}
TEST_F(NoAttention, HeadsThatAreTooWide) {
  const NetworkValue wide = net.input("wide", {2, 6, 264});
  net.output(multiply(softmax(multiply(wide, transpose(wide, {0, 2, 1}))), wide), "y");
  EXPECT_EQ(found(), 0);
}

}  // namespace
}  // namespace unisono
