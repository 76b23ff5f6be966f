// Gated units, whose two products, or convolutions, are one region, in the forms in which they are written; and what
// is none.

#include "network/dual_products.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

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

TEST(DualProducts, RowsThatAreInputs) {
  Unit u;
  const NetworkValue a = u.net.input("a", {128, 64}), b = u.net.input("b", {128, 64}),
                     bias = u.net.input("bias", {128});
  const auto product = [&](const NetworkValue& rows) {
    return u.net.apply(operators::Gemm{.transpose_b = true}, {u.x, rows});
  };
  u.net.output(silu(product(a) + bias) * product(b), "y");
  u.net.output(silu(product(a)) * gemm(u.x, u.weights({64, 128})), "one of a constant");
  const Decided d(u.net.build(), {{2, 48, 64}, {128, 64}, {128, 64}, {128}}, "host groups");
  const auto& both = d.of("y").contraction;
  ASSERT_TRUE(both && both->whole && both->whole->second) << to_string(d.plan, d.input);
  EXPECT_FALSE(both->whole->packing);
  const auto& one = d.of("one of a constant").contraction;
  ASSERT_TRUE(one && one->whole) << to_string(d.plan, d.input);
  EXPECT_FALSE(one->whole->second);
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

struct GatedConvolution : Unit {
  NetworkValue image = net.input("image", {2, 16, 20, 24});

  NetworkValue conv(std::int64_t to, ConvAttributes how = {.pad = 1}, std::int64_t size = 3) {
    return conv2d(image, weights({to, image.shape()[1].value() / how.groups, size, size}), weights({to}), how);
  }
  NetworkValue channels(NetworkValue of, std::int64_t from, std::int64_t to) {
    return net.apply(operators::Slice{{from}, {to}, {1}, {1}}, {of});
  }
  NetworkValue of_halves(NetworkValue both) {
    const std::int64_t k = both.shape()[1].value() / 2;
    return channels(both, 0, k) * sigmoid(channels(both, k, 2 * k));
  }
};

TEST(GatedConvolutions, HalvesOfOneConvolution) {
  GatedConvolution u;
  const NetworkValue gated = u.of_halves(u.conv(48, {.stride = 2, .pad = 1}));
  u.net.output(silu(group_norm(gated, {.groups = 4, .scale = u.weights({24}), .shift = u.weights({24})})), "y");
  const Decided d(u.net.build(), {{2, 48, 64}, {2, 16, 20, 24}}, "host groups");
  ASSERT_TRUE(d.of("y").contraction && d.of("y").contraction->whole) << to_string(d.plan, d.input);
  EXPECT_TRUE(d.of("y").contraction->whole->second);
  const auto steps = emit(d.input, d.plan).steps;
  ASSERT_EQ(steps.size(), 3u) << to_string(d.plan, d.input);
  EXPECT_THAT(steps[1]->how, testing::HasSubstr(" dual"));
  EXPECT_EQ(steps[1]->flop, 2.0 * 2 * (2 * 10 * 12) * (9 * 16) * 24);
}

TEST(GatedConvolutions, TwoOfOneImage) {
  GatedConvolution u;
  EXPECT_EQ(u.pairs(tanh(u.conv(24)) * sigmoid(u.conv(24))), 1u);
  GatedConvolution factors;  // one number a channel, ahead of the halves
  const NetworkValue both = factors.conv(32) * factors.weights({1, 32, 1, 1}) + factors.weights({32, 1, 1});
  EXPECT_EQ(factors.pairs(relu(factors.of_halves(both))), 1u);
}

// An input of few channels comes with a filter's taps beside them: to both convolutions at once
TEST(GatedConvolutions, OfAnInputOfFewChannels) {
  NetworkBuilder net("few channels");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 8, 64, 64});
  const auto conv = [&] { return conv2d(x, weights({64, 8, 3, 3}), {.pad = 1}); };
  net.output(conv() * sigmoid(conv()), "y");
  const Decided d(net.build(), {{2, 8, 64, 64}}, "host groups");
  EXPECT_EQ(d.plan.im2col_inputs.size(), 1u);
  ASSERT_TRUE(d.of("y").contraction && d.of("y").contraction->whole) << to_string(d.plan, d.input);
  EXPECT_TRUE(d.of("y").contraction->whole->second && d.of("y").contraction->whole->im2col);
  EXPECT_EQ(emit(d.input, d.plan).steps.size(), 3u);
}

// As WaveNet has them: rows of pixels, whose convolutions are ones of images
TEST(GatedConvolutions, OfRowsOfPixels) {
  Unit u;
  const NetworkValue x = u.net.input("row", {3, 16, 40});
  const NetworkValue image = reshape(x, {3, 16, 1, 40});
  const NetworkValue both = conv2d(image, u.weights({48, 16, 1, 2}), {.pad = {0, 4, 0, 0}, .dilation = 4});
  const NetworkValue row = reshape(both, {3, 48, 40});
  const auto half = [&](std::int64_t from) {
    return u.net.apply(operators::Slice{{from}, {from + 24}, {1}, {1}}, {row});
  };
  EXPECT_EQ(u.pairs(tanh(half(0)) * sigmoid(half(24))), 1u);
}

TEST(GatedConvolutions, NoOthers) {
  const auto pairs = [](const auto& make) {
    GatedConvolution u;
    return u.pairs(make(u));
  };
  EXPECT_EQ(pairs([](auto& u) { return u.conv(24) * sigmoid(u.conv(24, {.pad = 2, .dilation = 2})); }), 0u) << "moves";
  EXPECT_EQ(pairs([](auto& u) { return u.conv(24) * sigmoid(u.conv(24, {}, 1)); }), 0u) << "extents of the filters";
  EXPECT_EQ(pairs([](auto& u) { return u.of_halves(u.conv(48, {.pad = 1, .groups = 2})); }), 0u) << "groups";
  EXPECT_EQ(pairs([](auto& u) { return u.of_halves(u.conv(24)); }), 0u)
      << "12 channels, which are packed beside others";
  EXPECT_EQ(pairs([](auto& u) { return u.conv(24) + sigmoid(u.conv(24)); }), 0u) << "a sum";
  EXPECT_EQ(pairs([](auto& u) { return u.of_halves(group_norm(u.conv(48), {.groups = 4})); }), 0u)
      << "normalised first";
  EXPECT_EQ(pairs([](auto& u) {
              const NetworkValue both = u.conv(48);
              u.net.output(relu(both), "both");
              return u.of_halves(both);
            }),
            0u)
      << "the whole is read";
  EXPECT_EQ(pairs([](auto& u) {
              const NetworkValue both = u.conv(48), gate = sigmoid(u.channels(both, 0, 24));
              u.net.output(gate, "gate");
              return gate * u.channels(both, 24, 48);
            }),
            0u)
      << "a half is an output";
  EXPECT_EQ(pairs([](auto& u) {
              const NetworkValue w = u.net.input("w", {24, 16, 3, 3});
              return conv2d(u.image, w, {.pad = 1}) * sigmoid(u.conv(24));
            }),
            0u)
      << "a computed filter";
  EXPECT_EQ(pairs([](auto& u) {
              const NetworkValue both = u.conv(48);
              const auto rows = [&](std::int64_t from) {
                return u.net.apply(operators::Slice{{from}, {from + 10}, {1}, {2}}, {both});
              };
              return rows(0) * sigmoid(rows(10));
            }),
            0u)
      << "image rows";
  EXPECT_EQ(pairs([](auto& u) {
              const NetworkValue few = u.net.input("few", {2, 3, 20, 24});
              return u.of_halves(conv2d(few, u.weights({48, 3, 3, 3}), {.pad = 1}));
            }),
            0u)
      << "three channels, whose taps are loaded as channels";
}

// Few pixels of many channels: CTAs share the sums of a convolution by itself, and of one of all channels
TEST(GatedConvolutions, ByTwoLaunchesWhereThatIsFaster) {
  Unit u;
  const NetworkValue x = u.net.input("image", {1, 2048, 8, 8});
  const auto conv = [&](std::int64_t to) {
    return conv2d(x, u.weights({to, 2048, 3, 3}), u.weights({to}), {.pad = 1});
  };
  const NetworkValue both = conv(128);
  const auto half = [&](std::int64_t from) {
    return u.net.apply(operators::Slice{{from}, {from + 64}, {1}, {1}}, {both});
  };
  u.net.output(conv(64) * sigmoid(conv(64)), "y");
  u.net.output(half(0) * sigmoid(half(64)), "z");
  const Decided d(u.net.build(), {{2, 48, 64}, {1, 2048, 8, 8}}, "host groups");
  ASSERT_TRUE(d.of("y").contraction && d.of("y").contraction->whole) << to_string(d.plan, d.input);
  const FamilyKernel& whole = *d.of("y").contraction->whole;
  ASSERT_EQ(whole.ahead.size(), 1u) << to_string(d.plan, d.input);
  EXPECT_FALSE(whole.second);
  EXPECT_FALSE(d.of("z").contraction) << "a pass over the result of one";
  const auto steps = emit(d.input, d.plan).steps;
  const auto is_second = [](const auto& s) { return s->how.find("one of two launches: ") != std::string::npos; };
  const auto at = std::ranges::find_if(steps, is_second);
  ASSERT_NE(at, steps.end()) << to_string(d.plan, d.input);
  EXPECT_EQ((*at)->flop, (*std::prev(at))->flop);
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
  const Network parts = with_parts_of_products(net.build(), 2);
  std::vector<std::vector<float>> constants;
  for (const Operator& op : parts.operators)
    for (const TensorId id : op.inputs)
      if (parts[id].constant) constants.push_back(*parts[id].constant);
  EXPECT_THAT(constants, ElementsAre(ElementsAre(0, 2, 4, 6, 8, 10, 12, 14), ElementsAre(0, 2, 4, 6),
                                     ElementsAre(1, 3, 5, 7, 9, 11, 13, 15), ElementsAre(1, 3, 5, 7)));
}

// And each half's own filters
TEST(DualProducts, PartsHaveTheirOwnFilters) {
  NetworkBuilder net("parts");
  std::vector<float> w(4 * 2);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
  const NetworkValue x = net.input("x", {3, 2, 5, 5});
  const NetworkValue both = conv2d(x, net.constant("w", {4, 2, 1, 1}, w), net.constant("b", {4}, {0, 1, 2, 3})) *
                            net.constant("s", {1, 4, 1, 1}, {4, 5, 6, 7});
  const auto half = [&](std::int64_t from) {
    return net.apply(operators::Slice{{from}, {from + 2}, {1}, {1}}, {both});
  };
  const NetworkValue first = half(0), second = half(2);
  net.output(first * silu(second), "y");
  const Network parts = with_parts_of_products(net.build(), 2);
  std::vector<std::vector<float>> constants;
  for (const Operator& op : parts.operators)
    for (const TensorId id : op.inputs)
      if (parts[id].constant) constants.push_back(*parts[id].constant);
  EXPECT_THAT(constants, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 1), ElementsAre(4, 5),
                                     ElementsAre(4, 5, 6, 7), ElementsAre(2, 3), ElementsAre(6, 7)));
}

}  // namespace
}  // namespace unisono::network::gpu
