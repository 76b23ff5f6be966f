// Which operators become one launch with the moves and reductions between them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/digits.hpp"

namespace unisono::network::gpu {
namespace {

using testing::HasSubstr;

struct Chains : testing::Test {
  NetworkBuilder net;
  Weights weights{net};

  NetworkValue range(NetworkValue x, int axis, std::int64_t from, std::int64_t to) {
    return net.apply(operators::Slice{{from}, {to}, {1}, {axis}}, {x});
  }
  NetworkValue reduced(ReduceOp op, NetworkValue x, int axis) {
    return net.apply(operators::Reduce{.op = op, .axes = {axis}, .keep = true}, {x});
  }
  // (2, 9, 3·4·16) as three (2, 1, 4, 9, 16)
  std::vector<NetworkValue> parts() {
    const NetworkValue x = gemm(net.input("x", {2, 9, 16}), weights({16, 192}));
    const NetworkValue all = transpose(reshape(x, {2, 9, 3, 4, 16}), {2, 0, 3, 1, 4});
    std::vector<NetworkValue> each;
    for (int i = 0; i < 3; ++i) each.push_back(reshape(range(all, 0, i, i + 1), {2, 1, 4, 9, 16}));
    return each;
  }
  NetworkValue rotated(NetworkValue x) {
    const NetworkValue turned = concat({-range(x, 4, 8, 16), range(x, 4, 0, 8)}, 4);
    return x * weights({9, 16}) + turned * weights({9, 16});
  }
  std::vector<std::vector<std::string>> chains() {
    std::vector<std::vector<std::string>> all;
    const FusedNetwork f = fuse_for_gpu(net.build());
    for (const Region& r : f.regions) {
      if (!r.chain) continue;
      all.emplace_back();
      for (const std::size_t i : r.operators) all.back().push_back(to_string(f.network.operators[i].kind));
    }
    return all;
  }
  std::size_t launches() {
    const Decided d(net.build(), {{2, 9, 16}}, "host groups");
    return emit(d.input, d.plan).steps.size();
  }
};

// The permute of all three parts is part of each chain, and no launch
TEST_F(Chains, RotationsReadTheProductItself) {
  const std::vector<NetworkValue> x = parts();
  for (int i = 0; i < 3; ++i) net.output(rotated(x[static_cast<std::size_t>(i)]), "y" + std::to_string(i));
  EXPECT_EQ(chains().size(), 3u);
  EXPECT_EQ(launches(), 1u + 1 + 3 + 3) << "the input, the product, three rotations, three outputs";
  const Decided d(net.build(), {{2, 9, 16}}, "host groups");
  EXPECT_THAT(emit(d.input, d.plan).steps[2]->how, HasSubstr("chain, 8 elements a thread"));
}

TEST_F(Chains, LengthsAndWhatDividesByThem) {
  const NetworkValue x = parts()[1];
  net.output(x / max(reduced(ReduceOp::l2, x, 4), 1e-6), "y");
  ASSERT_EQ(chains().size(), 1u);
  EXPECT_THAT(chains()[0], testing::IsSupersetOf({"reduce_l2", "max", "div"}));
  EXPECT_EQ(launches(), 4u);
}

// What is an output, or read by a kernel of another kind, is stored
TEST_F(Chains, EndWhereOthersRead) {
  const NetworkValue x = parts()[0], lengths = reduced(ReduceOp::l2, x, 4);
  net.output(x / lengths, "y");
  net.output(lengths, "lengths");
  for (const auto& chain : chains()) EXPECT_THAT(chain, testing::Not(testing::Contains("reduce_l2")));
}

// A move that two chains have is not taken for one that the first alone reads: what it reads is stored
TEST_F(Chains, OwnMovesReadWhatIsStored) {
  const NetworkValue x = exp(gemm(net.input("x", {2, 9, 16}), weights({16, 64})) + 1.0);
  const NetworkValue moved = transpose(reshape(-reshape(x, {18, 64}), {2, 9, 4, 16}), {0, 2, 1, 3});
  const NetworkValue wide = reshape(moved, {2, 1, 4, 9, 16});
  net.output(rotated(wide), "a");
  net.output(rotated(wide) + wide, "b");
  net.output(range(wide, 4, 0, 5), "c");
  EXPECT_GE(chains().size(), 2u);
  EXPECT_GE(launches(), 5u);
}

// A sum that is normalised, and goes on as a residual behind the next product
TEST_F(Chains, StoreWhatGoesOn) {
  const NetworkValue x = gemm(net.input("x", {2, 9, 16}), weights({16, 64}));
  const NetworkValue moved = reshape(transpose(reshape(x, {2, 3, 3, 64}), {0, 2, 1, 3}), {18, 64});
  const NetworkValue sum = moved + weights({18, 64});
  net.output(gemm(layer_norm(sum), weights({64, 64})) + sum, "y");
  ASSERT_EQ(chains().size(), 1u);
  EXPECT_THAT(chains()[0], testing::IsSupersetOf({"transpose", "add", "layer_norm"}));
  EXPECT_EQ(launches(), 5u);
}

// What is stored goes by two moves, both of which the chain has copies of, to a kernel that the chain reads
TEST_F(Chains, StoreNothingThatTheirInputsAreMadeOf) {
  const NetworkValue moved = transpose(reshape(sin(net.input("x", {4, 6, 16})), {24, 16}), {1, 0});
  net.output(net.apply(operators::CumulativeSum{.axis = 1}, {moved}) + moved, "y");
  const auto all = chains();
  EXPECT_EQ(all, (std::vector<std::vector<std::string>>{{"sin", "reshape", "transpose"}}));
}

// A number for each line is computed with its line; one of a whole image is not computed again for each of its pixels
TEST_F(Chains, LeaveFewNumbersToALaunchOfTheirOwn) {
  const NetworkValue x = net.input("x", {2, 64, 512}), few = net.input("few", {2, 1, 1});
  net.output(transpose(x, {0, 2, 1}) * sin(cos(few)) + 1.0, "y");
  for (const auto& chain : chains()) EXPECT_THAT(chain, testing::Not(testing::Contains("cos")));
}

// Pixels that are rolled: a table of places that no digits say
TEST_F(Chains, LookPlacesUp) {
  const NetworkValue x = gemm(net.input("x", {2, 9, 16}), weights({16, 64}));
  const NetworkValue rolled = concat({range(x, 1, 4, 9), range(x, 1, 0, 4)}, 1);
  net.output(layer_norm(reshape(rolled, {18, 64}) * weights({18, 64})), "y");
  ASSERT_EQ(chains().size(), 1u);
  EXPECT_THAT(chains()[0], testing::IsSupersetOf({"mul", "layer_norm"}));
  EXPECT_EQ(launches(), 4u);
}

// What mixes four heads of attention, around a softmax
TEST_F(Chains, HaveSmallProducts) {
  const NetworkValue x = net.input("x", {2, 1024, 4});
  const NetworkValue mixed = gemm(exp(gemm(x, weights({4, 4})) + weights({4})), weights({4, 4}));
  net.output(mixed, "y");
  ASSERT_EQ(chains().size(), 1u);
  const FusedNetwork f = fuse_for_gpu(net.build());
  for (const Region& r : f.regions) EXPECT_NE(r.kind, RegionReport::Kind::contraction);
}

// A loss is part of the product's kernel
TEST_F(Chains, LeaveOneNumberToItsProduct) {
  const NetworkValue y = gemm(net.input("x", {64, 16}), weights({16, 1}));
  net.output(net.apply(operators::Reduce{.op = ReduceOp::mean, .axes = {0, 1}, .keep = false}, {y * y}) * 2.0, "loss");
  EXPECT_TRUE(chains().empty());
}

TEST_F(Chains, AreNoneOfTheCpuAndOfOpenExtents) {
  const NetworkValue x = net.input("x", {"batch", 9, 16});
  net.output(concat({-range(x, 2, 8, 16), range(x, 2, 0, 8)}, 2) * 2.0, "y");
  EXPECT_TRUE(chains().empty());
  for (const Region& r : fuse(net.build()).regions) EXPECT_FALSE(r.chain);
}

TEST(PlaceDigits, OfTablesThatTheySay) {
  const auto table = [](const std::vector<std::int64_t>& places) {
    std::vector<std::byte> bytes(places.size() * sizeof(std::int64_t));
    std::memcpy(bytes.data(), places.data(), bytes.size());
    return NetworkTensor{"t",
                         DType::i64,
                         {Dim(std::ssize(places))},
                         nullptr,
                         std::make_shared<std::vector<std::byte>>(std::move(bytes))};
  };
  const auto digits = digits_of_places(table({3, 4, 5, 13, 14, 15, 23, 24, 25, 33, 34, 35}), 40);
  ASSERT_TRUE(digits);
  EXPECT_EQ(digits->begin, 3);
  EXPECT_EQ(digits->extents, (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(digits->steps, (std::vector<std::int64_t>{10, 1}));
  EXPECT_EQ(digits_of_places(table({-1, -2, -3}), 10)->steps, std::vector<std::int64_t>{-1});
  EXPECT_FALSE(digits_of_places(table({0, 1, 2, 4}), 10));
  EXPECT_FALSE(digits_of_places(table({0, 1, 5, 7}), 10));
  EXPECT_FALSE(digits_of_places(table({0, 10}), 10)) << "outside";
}

}  // namespace
}  // namespace unisono::network::gpu
