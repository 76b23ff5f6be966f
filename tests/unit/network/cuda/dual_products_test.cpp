// Gated units, whose two products are one region, in the forms in which they are written; and what is none.

#include "network/dual_products.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"

namespace unisono::network::gpu {
namespace {

using testing::ElementsAre;

NetworkValue columns(NetworkValue x, std::int64_t from, std::int64_t to, std::int64_t step = 1) {
  const int axis = static_cast<int>(x.shape().size()) - 1;
  return x.builder().apply(operators::Slice{{from}, {to}, {step}, {axis}}, {x});
}

struct Unit {
  NetworkBuilder net{"unit"};
  Weights weights{net};
  NetworkValue x = net.input("x", {2, 48, 64});

  NetworkValue linear(std::int64_t to) { return gemm(x, weights({64, to})) + weights({to}); }
  // How many regions have two products
  std::size_t pairs(NetworkValue y) {
    net.output(y, "y");
    const Network network = net.build();
    std::size_t count = 0;
    for (const Region& r : fuse_for_gpu(network).regions) count += r.second ? 1 : 0;
    for (const Region& r : fuse(network).regions) EXPECT_FALSE(r.second) << "on the CPU";
    return count;
  }
};

TEST(DualProducts, HalvesOfOneProduct) {
  Unit u;
  const NetworkValue both = u.linear(256);
  u.net.output(columns(both, 0, 128) * gelu(columns(both, 128, 1 << 30)), "y");
  const Decided d(u.net.build(), {{2, 48, 64}}, "host groups");
  ASSERT_TRUE(d.of("y").contraction && d.of("y").contraction->whole) << to_string(d.plan, d.input);
  EXPECT_TRUE(d.of("y").contraction->whole->second);
  const auto steps = emit(d.input, d.plan).steps;
  ASSERT_EQ(steps.size(), 3u) << to_string(d.plan, d.input);
  EXPECT_THAT(steps[1]->how, testing::HasSubstr(" dual"));
  EXPECT_EQ(steps[1]->flop, 2.0 * 2 * 96 * 64 * 128);
}

TEST(DualProducts, TwoProductsOfOneMatrix) {
  Unit u;
  EXPECT_EQ(u.pairs(silu(gemm(u.x, u.weights({64, 128}))) * gemm(u.x, u.weights({64, 128}))), 1u);
}

TEST(DualProducts, InterleavedColumnsWithClamps) {
  Unit u;
  const NetworkValue both = u.linear(256), gate = clamp(columns(both, 0, 256, 2), -1e30, 7),
                     up = clamp(columns(both, 1, 256, 2), -7, 7);
  EXPECT_EQ(u.pairs((up + 1.0) * (gate * sigmoid(gate * 1.702))), 1u);
}

TEST(DualProducts, NoOtherUses) {
  Unit half_is_output;
  const NetworkValue both = half_is_output.linear(64);
  half_is_output.net.output(columns(both, 0, 32), "half");
  EXPECT_EQ(half_is_output.pairs(columns(both, 0, 32) * silu(columns(both, 32, 64))), 0u);

  Unit whole_is_read;
  const NetworkValue all = whole_is_read.linear(64);
  whole_is_read.net.output(relu(all), "all");
  EXPECT_EQ(whole_is_read.pairs(columns(all, 0, 32) * silu(columns(all, 32, 64))), 0u);

  Unit gate_is_read;
  const NetworkValue gate = silu(gate_is_read.linear(32));
  gate_is_read.net.output(transpose(gate, {1, 0, 2}), "gate");
  EXPECT_EQ(gate_is_read.pairs(gate * gate_is_read.linear(32)), 0u);
}

TEST(DualProducts, NoOtherFormsAndWidths) {
  Unit sum;
  EXPECT_EQ(sum.pairs(silu(sum.linear(32)) + sum.linear(32)), 0u) << "a sum";
  Unit odd;
  EXPECT_EQ(odd.pairs(silu(odd.linear(12)) * odd.linear(12)), 0u) << "columns that are packed for no tensor cores";
  Unit uneven;
  const NetworkValue all = uneven.linear(64);
  EXPECT_EQ(uneven.pairs(silu(columns(all, 0, 32)) * columns(all, 8, 40)), 1u) << "which overlap";
  Unit other;
  EXPECT_EQ(other.pairs(silu(other.linear(32)) * gemm(relu(other.x), other.weights({64, 32}))), 0u)
      << "of two matrices";
  Unit computed;
  const NetworkValue w = computed.net.input("w", {64, 32});
  EXPECT_EQ(computed.pairs(silu(gemm(computed.x, w)) * computed.linear(32)), 0u) << "computed weights";
  Unit rows;
  const NetworkValue stacked = gemm(rows.x, rows.weights({64, 32}));
  const auto row = [&](std::int64_t from) {
    return rows.net.apply(operators::Slice{{from}, {from + 24}, {1}, {1}}, {stacked});
  };
  EXPECT_EQ(rows.pairs(silu(row(0)) * row(24)), 0u) << "rows";
}

// Each half's own columns of weights and bias, in both orders of the weights in memory
TEST(DualProducts, PartsHaveTheirOwnColumns) {
  NetworkBuilder net("parts");
  std::vector<float> w(2 * 8);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
  const NetworkValue x = net.input("x", {3, 2});
  const NetworkValue both = gemm(x, net.constant("w", {2, 8}, w)) + net.constant("b", {8}, {0, 1, 2, 3, 4, 5, 6, 7});
  const NetworkValue even = columns(both, 0, 8, 2), odd = columns(both, 1, 8, 2);
  net.output(even * silu(odd), "y");
  const Network parts = with_parts_of_products(net.build());
  std::vector<std::vector<float>> constants;
  for (const Operator& op : parts.operators)
    for (const TensorId id : op.inputs)
      if (parts[id].constant) constants.push_back(*parts[id].constant);
  EXPECT_THAT(constants, ElementsAre(ElementsAre(0, 2, 4, 6, 8, 10, 12, 14), ElementsAre(0, 2, 4, 6),
                                     ElementsAre(1, 3, 5, 7, 9, 11, 13, 15), ElementsAre(1, 3, 5, 7)));
}

}  // namespace
}  // namespace unisono::network::gpu
