// Decisions about regions and the tensors between them, each by its pass.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {
namespace {

using testing::HasSubstr;

TEST(DecisionPasses, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const DecisionPass& pass : decision_passes()) EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
  EXPECT_EQ(names.size(), 6u);
}

TEST(RefuseTypes, SaysWhichTensorIsNoF32AndRefusesThatRegionAlone) {
  NetworkBuilder net("types");
  net.output(relu(net.input("x", {2, 8, 6, 6})), "y");
  net.output(transpose(net.input("i", {3, 5}, DType::i32), {1, 0}), "z");
  Decided d(net.build(), {{2, 8, 6, 6}, {3, 5}}, "refuse types");
  EXPECT_FALSE(d.of("y").refusal);
  ASSERT_TRUE(d.of("z").refusal);
  EXPECT_THAT(d.of("z").refusal->text(), HasSubstr("is of i32; kernels of a GPU compute f32 networks only"));
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
      << "not with 32 channels, a second reader, or a filter of one tap a row";
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
  EXPECT_THAT(refusals, testing::UnorderedElementsAre("", "no kernel of a convolution makes 'x'"));
  std::map<std::string, std::int64_t> wanted;
  for (const auto& [id, channels] : d.plan.wanted_moments) wanted[d.network()[id].name] = channels;
  EXPECT_EQ(wanted.size(), 2u);
  for (const auto& [name, channels] : wanted) EXPECT_EQ(channels, 4) << name << ": divides 12, 64 and 32";
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
