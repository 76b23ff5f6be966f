// Decisions about regions and the tensors between them, each by its pass.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {
namespace {

using testing::HasSubstr;

TEST(DecisionPasses, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const DecisionPass& pass : decision_passes()) EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
  EXPECT_EQ(names.size(), 12u);
}

TEST(UnservedRegions, AreNotThoseOfIntegers) {
  NetworkBuilder net("types");
  net.output(relu(net.input("x", {2, 8, 6, 6})), "y");
  net.output(transpose(net.input("i", {3, 5}, DType::i32), {1, 0}), "z");
  Decided d(net.build(), {{2, 8, 6, 6}, {3, 5}}, "unserved regions");
  EXPECT_FALSE(d.of("y").host);
  EXPECT_FALSE(d.of("z").host);
  ASSERT_TRUE(d.of("z").tensors);
  EXPECT_EQ(d.of("z").tensors->how(), "moved, words of 4 bytes");
}

// As models of 16-bit floats have them: the border's kernels convert
TEST(UnservedRegions, AreNotCastsFromTheCallersTensorsOf16BitsAndBack) {
  NetworkBuilder net("casts");
  const auto cast = [&](NetworkValue v, DType to) {
    return net.apply(operators::Map{.op = MapOp::cast, .to = to}, {v});
  };
  const NetworkValue x = cast(net.input("x", {2, 8}, DType::f16), DType::f32);
  net.output(cast(relu(x).named("between"), DType::f16), "y");
  net.output(relu(cast(cast(relu(x * 2.0), DType::f16).named("rounded"), DType::f32)), "z");
  Decided d(net.build(), {{2, 8}}, "unserved regions");
  EXPECT_FALSE(d.of("y").host) << to_string(d.plan, d.input);
  ASSERT_TRUE(d.of("y").tensors && d.of("rounded").tensors);
  EXPECT_EQ(d.of("y").tensors->how(), "moved, words of 16 bytes");
  EXPECT_EQ(d.of("rounded").tensors->how(), "elementwise, 8 a thread") << "a rounding of the network's own";
}

// The sum of so many inputs, which are added to x
NetworkValue sum_of_inputs(NetworkBuilder& net, NetworkValue x, int count) {
  const Shape shape = x.shape();
  for (int i = 0; i < count; ++i) x = x + net.input("in" + std::to_string(i), shape);
  return x;
}

TEST(UnservedRegions, AreNoneWhereTensorKernelsServe) {
  NetworkBuilder net("operators");
  const NetworkValue x = net.input("x", {2, 8, 6, 6}), f = net.input("f", {8, 4, 3, 3}),
                     r = net.input("r", {1, 2, 1, 2, 1, 2});
  net.output(net.apply(operators::Reduce{.axes = {2}}, {x}, "reduced"), "a");
  net.output(net.apply(operators::Pad{.before = {0, 0, 1, 1}, .after = {0, 0, 1, 1}, .mode = PadMode::edge}, {x}), "b");
  net.output(transpose(r, {5, 4, 3, 2, 1, 0}), "c");
  net.output(conv_transpose2d(x, f), "d");
  net.output(max_pool(x), "e");
  const Network network = net.build();
  const std::vector<Sizes> sizes{{2, 8, 6, 6}, {8, 4, 3, 3}, {1, 2, 1, 2, 1, 2}};
  const Decided d(network, sizes, "unserved regions");
  const auto how = [&](const char* name) {
    EXPECT_FALSE(d.of(name).host) << name;
    return d.of(name).tensors ? d.of(name).tensors->how() : "";
  };
  EXPECT_EQ(how("a"), "a thread a result");
  EXPECT_EQ(how("b"), "moved, words of 16 bytes");
  EXPECT_EQ(how("c"), "moved, words of 2 bytes");
  EXPECT_EQ(how("d"), "") << "a contraction";
  EXPECT_EQ(how("e"), "windows, 8 outputs a thread");
  EXPECT_THAT(to_string(d.plan, d.input), HasSubstr("tensor kernels: moved, words of 16 bytes"));

  const Decided wanted(network, sizes, "unserved regions", {"pad", "conv_transpose2d"});
  ASSERT_TRUE(wanted.of("b").host && wanted.of("d").host);
  EXPECT_EQ(wanted.of("b").host->why.text(), "UNISONO_HOST_STEPS names pad");
  EXPECT_FALSE(wanted.of("a").host);
}

// Not of more elements than they count
TEST(UnservedRegions, SayWhichOperatorHasNoKernelAndWhy) {
  NetworkBuilder net("a large matrix");
  net.output(net.apply(operators::Triangle{}, {net.input("x", {65536, 65536})}), "y");
  const Decided d(net.build(), {{65536, 65536}}, "unserved regions");
  ASSERT_TRUE(d.of("y").host);
  EXPECT_THAT(d.of("y").host->why.text(), HasSubstr("size: 4294967296 elements; kernels count to"));

  constexpr std::int64_t height = std::int64_t{1} << 31;
  NetworkBuilder large("a high image");
  const operators::Pool2d pool{.kernel = {2, 1}, .stride = {1 << 24, 1}};
  large.output(large.apply(pool, {large.input("x", {1, 8, height, 1})}), "y");
  const Decided pooled(large.build(), {{1, 8, height, 1}}, "unserved regions");
  ASSERT_TRUE(pooled.of("y").host);
  EXPECT_THAT(pooled.of("y").host->why.text(), HasSubstr("size: window 2147483648; kernels count places to"));

  NetworkBuilder smaller("a high image made small");
  smaller.output(smaller.apply(operators::Resize{.height = 4, .width = 1}, {smaller.input("x", {1, 8, height, 1})}),
                 "y");
  const Decided resized(smaller.build(), {{1, 8, height, 1}}, "unserved regions");
  ASSERT_TRUE(resized.of("y").host);
  EXPECT_THAT(resized.of("y").host->why.text(), HasSubstr("size: extent 2147483648; kernels count places to"));
}

TEST(UnservedRegions, AGraphOfTooManyTensorsByItselfOrBehindAContraction) {
  std::vector<Sizes> sizes(51, Sizes{1, 16, 4, 4});
  NetworkBuilder epilogue("epilogue");
  epilogue.output(sum_of_inputs(epilogue, epilogue.input("x", {1, 16, 4, 4}), 50), "y");
  const Decided alone(epilogue.build(), sizes, "unserved regions");
  ASSERT_TRUE(alone.of("y").host);
  EXPECT_THAT(alone.of("y").host->why.text(), Says("more than 48 tensors"));

  NetworkBuilder contraction("contraction");
  Weights weights(contraction);
  const NetworkValue x = contraction.input("x", {1, 12, 4, 4});
  sizes[0] = {1, 12, 4, 4};
  const NetworkValue sums = conv2d(x, weights({16, 6, 3, 3}), {.pad = 1, .groups = 2});
  contraction.output(sum_of_inputs(contraction, sums, 50), "y");
  Decided behind(contraction.build(), sizes, "kernels");
  EXPECT_TRUE(behind.of("y").contraction && !behind.of("y").host);
  find_unserved_epilogues(behind.input, behind.plan);
  ASSERT_TRUE(behind.of("y").host) << to_string(behind.plan, behind.input);
  EXPECT_THAT(behind.of("y").host->why.text(), Says("more than 48 tensors"));
  EXPECT_FALSE(behind.of("y").contraction);
}

// A step's number where a product reads it as well: memory has it in 16 bits then, and what moves it runs on the host.
// Its sine is made by the launch that makes the number. Bytes are exact in 16 bits.
TEST(ExactIntegers, AreOnTheHostWhereAProductReadsThemToo) {
  NetworkBuilder net("embedding");
  Weights weights(net);
  const auto cast = [&](NetworkValue v) { return net.apply(operators::Map{.op = MapOp::cast, .to = DType::f32}, {v}); };
  const NetworkValue t = cast(net.input("t", {2, 8}, DType::i64)).named("step"), x = net.input("x", {2, 8});
  net.output(gemm(t, weights({8, 16})), "a");
  net.output(elementwise(Op::sin, {t}), "sine");
  const NetworkValue u = cast(net.input("u", {2, 8}, DType::i64)).named("other");
  net.output(gemm(u, weights({8, 16})), "d");
  net.output(elementwise(Op::sin, {transpose(u, {1, 0})}), "turned");
  net.output(relu(cast(net.input("n", {2, 8}, DType::i64)) + x), "b");
  net.output(relu(cast(net.input("pixels", {2, 8}, DType::u8))), "c");
  Decided d(net.build(), {{2, 8}, {2, 8}, {2, 8}, {2, 8}, {2, 8}}, "exact integers");
  const auto on_host = [&](const char* name) { return d.of(name).host.has_value(); };
  EXPECT_FALSE(on_host("step") || on_host("sine")) << to_string(d.plan, d.input);
  ASSERT_TRUE(on_host("other")) << to_string(d.plan, d.input);
  EXPECT_THAT(d.of("other").host->why.text(), Says("from integers, … 16 bits"));
  EXPECT_FALSE(on_host("a"));
  EXPECT_FALSE(on_host("b"));
  EXPECT_TRUE(d.of("b").tensors) << "x is no integer, but the other is";
  EXPECT_FALSE(on_host("c")) << "a byte is exact";
}

TEST(Im2colInputs, AreThoseOfFewChannelsThatOneConvolutionReads) {
  NetworkBuilder net("stems");
  Weights weights(net);
  const NetworkValue few = net.input("few", {2, 3, 16, 16}), many = net.input("many", {2, 32, 16, 16}),
                     shared = net.input("shared", {2, 3, 16, 16}), narrow = net.input("narrow", {2, 3, 16, 16});
  net.output(weights.conv(few, 16), "a");
  net.output(weights.conv(many, 16), "b");
  net.output(weights.conv(shared, 16), "c");
  net.output(relu(shared), "d");
  net.output(weights.conv(narrow, 16, 1), "e");
  const Decided d(net.build(), {{2, 3, 16, 16}, {2, 32, 16, 16}, {2, 3, 16, 16}, {2, 3, 16, 16}}, "im2col inputs");
  EXPECT_EQ(d.plan.im2col_inputs, (Im2colInputs{{d.id("few"), 0}}))
      << "not with 32 channels, a second reader, or one tap a row";
}

TEST(GatheredOperands, AreThoseWhoseColumnsDoNotLieTogether) {
  NetworkBuilder net("operands");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 6, 6}), scale = net.input("scale", {16, 1, 1}),
                     shift = net.input("shift", {1, 16, 1, 1});
  net.output(weights.conv(x, 16) * relu(scale) + relu(shift), "y");
  Decided d(net.build(), {{2, 16, 6, 6}, {16, 1, 1}, {1, 16, 1, 1}}, "gathered operands");
  const RegionPlan& y = d.of("y");
  ASSERT_EQ(y.gathered.size(), 1u) << to_string(d.plan, d.input);
  EXPECT_EQ(y.gathered[0].packed.columns, 16);
  EXPECT_EQ(y.gathered[0].packed.rows, 1);
}

// Vectors that are given with each run lie as kernels read them, whatever shape the program gives them
TEST(GatheredOperands, AreNoVectorsThatAreReshaped) {
  NetworkBuilder net("operands");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 6, 6}), scale = net.input("scale", {16}), shift = net.input("s", {16});
  const NetworkValue y =
      weights.conv(x, 16) * reshape(scale, {16, 1, 1}) + reshape(reshape(shift, {16, 1}), {16, 1, 1});
  net.output(batch_norm(y, scale, shift, shift, scale), "y");
  Decided d(net.build(), {{2, 16, 6, 6}, {16}, {16}}, "gathered operands");
  EXPECT_EQ(d.of("y").gathered.size(), 0u) << to_string(d.plan, d.input);
  const auto launched = [&](const network::Region& r) { return d.input.is_launched(r); };
  EXPECT_EQ(std::ranges::count_if(d.input.fused.regions, launched), 2)
      << "the batch norm's vectors, and the convolution";
}

// A normalisation over a concatenation of two convolutions, and one over a part that is an input
struct Concatenations {
  NetworkBuilder net{"concatenations"};
  Weights weights{net};
  NetworkValue x = net.input("x", {2, 64, 16, 16}), skip = weights.conv(x, 64), up = weights.conv(skip, 32);

  void normalise(std::vector<NetworkValue> parts, int groups, const std::string& name) {
    net.output(weights.conv(silu(group_norm(concat(std::move(parts)), {.groups = groups})), 16), name);
  }
};

TEST(WantMoments, OfThePartsThatConvolutionsMakeInUnitsThatFitTheirGroups) {
  Concatenations c;
  c.normalise({c.skip, c.up}, 8, "y");  // 12 channels a group
  c.normalise({c.skip, c.x}, 8, "z");
  Decided d(c.net.build(), {{2, 64, 16, 16}}, "wanted statistics");
  std::vector<std::string> refusals;
  for (const RegionPlan& r : d.plan.regions)
    if (r.statistics) refusals.push_back(r.statistics->refusal ? r.statistics->refusal->text() : "");
  EXPECT_THAT(refusals, testing::UnorderedElementsAre("", Says("no kernel … makes 'x'")));
  std::map<std::string, std::int64_t> wanted;
  for (const auto& [id, channels] : d.plan.wanted_moments) wanted[d.network()[id].name] = channels;
  EXPECT_EQ(wanted.size(), 2u);
  for (const auto& [name, channels] : wanted) EXPECT_EQ(channels, 4) << name << ": divides 12, 64 and 32";
}

// The moments of a tensor that its kernel stores; null: none
const TensorMoments* moments_of(const NetworkPlan& plan, TensorId id) {
  for (const RegionPlan& p : plan.regions)
    if (const TensorMoments* moments = p.moments(); moments != nullptr && moments->tensor == id) return moments;
  return nullptr;
}

TEST(MergeStatistics, TakesTheMomentsThatAllProducersStore) {
  Concatenations c;
  c.normalise({c.skip, c.up}, 8, "y");
  Decided d(c.net.build(), {{2, 64, 16, 16}}, "kernels");
  EXPECT_EQ(d.plan.wanted_moments.size(), 2u);
  for (const auto& [id, channels] : d.plan.wanted_moments) {
    ASSERT_NE(moments_of(d.plan, id), nullptr) << to_string(d.plan, d.input);
    EXPECT_EQ(channels % moments_of(d.plan, id)->unit, 0);
  }
}

// The launch that makes one part normalises it, and stores no moments of the result: the other part's stores none
// either
TEST(MergeStatistics, LeavesNoMomentsThatNobodyReads) {
  Concatenations c;
  const NetworkValue normalised = group_norm(c.weights.conv(c.x, 64), {.groups = 4});
  c.normalise({c.up, normalised}, 8, "y");
  Decided d(c.net.build(), {{2, 64, 16, 16}}, "wanted statistics");
  EXPECT_FALSE(d.plan.wanted_moments.empty());
  merge_statistics(d.input, d.plan);
  for (const RegionPlan& r : d.plan.regions)
    EXPECT_FALSE(r.contraction) << "an answer that nobody needs is no decision";
  choose_kernels(d.input, d.plan);
  EXPECT_TRUE(d.plan.wanted_moments.empty()) << to_string(d.plan, d.input);
  for (const RegionPlan& r : d.plan.regions) {
    if (r.statistics) {
      EXPECT_THAT(r.statistics->refusal.value_or(Refusal{}).text(), HasSubstr("stores none: statistics: "));
    }
    if (r.contraction && r.contraction->whole) {
      EXPECT_FALSE(r.contraction->whole->moments.has_value());
    }
  }
}

// A tensor that two normalisations read, of which one cannot be served: the other still is, by the kernels that the
// producers were asked for
TEST(MergeStatistics, RefusesOneReaderAndServesTheOtherByTheSameKernels) {
  Concatenations c;
  const NetworkValue normalised = group_norm(c.weights.conv(c.x, 64), {.groups = 4});
  c.normalise({c.skip, c.up}, 8, "y");
  c.normalise({c.up, normalised}, 8, "z");
  Decided d(c.net.build(), {{2, 64, 16, 16}}, "kernels");
  int served = 0, refused = 0;
  for (const RegionPlan& r : d.plan.regions)
    if (r.statistics) ++(r.statistics->refusal ? refused : served);
  EXPECT_EQ(served, 1) << to_string(d.plan, d.input);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(d.plan.wanted_moments.size(), 2u);
  for (const auto& [id, channels] : d.plan.wanted_moments) {
    ASSERT_NE(moments_of(d.plan, id), nullptr) << to_string(d.plan, d.input);
    EXPECT_EQ(channels % moments_of(d.plan, id)->unit, 0);
  }
}

}  // namespace
}  // namespace unisono::network::gpu
