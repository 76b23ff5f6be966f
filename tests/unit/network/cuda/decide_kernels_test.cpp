// Decisions about the kernels of contractions, each by its pass.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {
namespace {

using testing::HasSubstr;

TEST(ChooseKernels, AContractionAndItsEpilogueAreOneKernelWithPaddedChannels) {
  NetworkBuilder net("padded");
  Weights weights(net);
  net.output(relu(weights.conv(net.input("x", {2, 24, 8, 8}), 12)), "y");
  const Decided d(net.build(), {{2, 24, 8, 8}}, "kernels");
  const auto& c = d.of("y").contraction;
  ASSERT_TRUE(c && c->whole) << to_string(d.plan, d.input);
  EXPECT_THAT(c->whole->how, HasSubstr("output channels padded to 16"));
  EXPECT_FALSE(c->bare);
}

TEST(ChooseKernels, WithoutAKernelForItsEpilogueTheContractionStandsAlone) {
  NetworkBuilder net("bare");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 32, 8, 8});
  net.output(group_norm(weights.conv(x, 12), {.groups = 3}), "y");  // 12 channels, which a reduction sees
  const Decided d(net.build(), {{2, 32, 8, 8}}, "kernels");
  const auto& c = d.of("y").contraction;
  ASSERT_TRUE(c && c->bare) << to_string(d.plan, d.input);
  EXPECT_FALSE(c->whole);
  ASSERT_TRUE(c->not_whole);
  EXPECT_THAT(c->not_whole->text(), HasSubstr("32 input and 12 output channels"));
}

TEST(ChooseKernels, WithoutAnyAPlainKernelSumsAndSaysWhy) {
  NetworkBuilder net("direct");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 144, 8, 8});  // 72 channels a group, more than tiles of several have
  net.output(conv2d(x, weights({20, 72, 3, 3}), {.pad = 1, .groups = 2}), "y");
  const Decided d(net.build(), {{2, 144, 8, 8}}, "kernels");
  const auto& c = d.of("y").contraction;
  ASSERT_TRUE(c);
  EXPECT_FALSE(c->whole || c->bare) << to_string(d.plan, d.input);
  ASSERT_TRUE(c->not_bare);
  EXPECT_THAT(c->not_bare->text(), HasSubstr("its filters are in 2 groups"));
  EXPECT_THAT(to_string(d.plan, d.input), HasSubstr("one sum a thread: its filters are in 2 groups"));
}

// A kernel without messages between CTAs, and a pass over its sums
TEST(ChooseKernels, NormalisesApartWhereThatIsFaster) {
  NetworkBuilder net("apart");
  Weights weights(net);
  const auto normalised = [&](const NetworkValue& x, std::int64_t groups) {
    return group_norm(conv2d(x, weights({384, 384 / groups, 7, 7}), {.pad = 3, .groups = groups}), {.groups = 4});
  };
  const NetworkValue x = net.input("x", {8, 384, 14, 14});
  net.output(normalised(x, 384), "each");
  net.output(normalised(x, 1), "all");
  const Decided d(net.build(), {{8, 384, 14, 14}}, "kernels");
  const auto& each = d.of("each").contraction;
  ASSERT_TRUE(each && each->bare && each->not_whole) << to_string(d.plan, d.input);
  EXPECT_FALSE(each->whole);
  EXPECT_THAT(each->not_whole->text(), HasSubstr("by 4 launches"));
  EXPECT_TRUE(d.of("all").contraction->whole) << to_string(d.plan, d.input);
}

// What kernels between make has no zeros after its channels
TEST(ChooseKernels, ImagesOfOddChannelsArePadded) {
  NetworkBuilder net("odd");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 12, 8, 8});
  net.output(weights.conv(x, 20), "first");
  net.output(weights.conv(transpose(x, {0, 1, 3, 2}), 20), "second");
  const Decided d(net.build(), {{2, 12, 8, 8}}, "kernels");
  for (const char* name : {"first", "second"}) {
    const auto& c = d.of(name).contraction;
    ASSERT_TRUE(c && c->whole) << to_string(d.plan, d.input);
    EXPECT_EQ(c->whole->image.shape.back(), 16);
    EXPECT_EQ(c->whole->padding.has_value(), std::string(name) == "second");
  }
  NetworkBuilder heads("heads");
  const NetworkValue scores = heads.input("scores", {4, 2, 49, 49});
  heads.output(conv2d(transpose(scores, {0, 1, 3, 2}), heads.constant("w", {4, 2, 1, 1}, std::vector<float>(8))), "y");
  EXPECT_FALSE(Decided(heads.build(), {{4, 2, 49, 49}}, "kernels").of("y").contraction->whole);
}

// A convolution of groups is whole, with what follows, where a tile may be several of them
TEST(ChooseKernels, TilesOfSeveralGroups) {
  NetworkBuilder net("groups");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 128, 56, 56});
  net.output(relu(conv2d(x, weights({128, 8, 3, 3}), {.pad = 1, .groups = 16})), "y");
  const Decided d(net.build(), {{2, 128, 56, 56}}, "kernels");
  const auto& c = d.of("y").contraction;
  ASSERT_TRUE(c && c->whole) << to_string(d.plan, d.input);
  EXPECT_TRUE(c->whole->lowered.plan().made_for_groups);
  EXPECT_THAT(to_string(d.plan, d.input), HasSubstr("groups 8x8"));
}

bool loads_ahead(const FamilyKernel& kernel) {
  return kernel.lowered.kernel.source.find("FiltersAhead<") != std::string::npos;
}

// The network's own constants, packed before any launch, are loaded ahead of the wait for the launches ahead. A filter
// that the graph computes is not; nor is any where the decision is switched off.
TEST(ChooseKernels, ConstantFiltersAreLoadedAhead) {
  NetworkBuilder net("ahead");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 64, 8, 8});
  net.output(relu(weights.conv(x, 64)), "constant");
  net.output(conv2d(x, sigmoid(net.input("w", {64, 64, 3, 3})), {.pad = 1}), "computed");
  net.output(conv2d(upsample(x), weights({64, 64, 3, 3}), {.pad = 1}), "phases");
  const std::vector<Sizes> inputs{{2, 64, 8, 8}, {64, 64, 3, 3}};
  const Decided d(net.build(), inputs, "kernels");
  const auto kernel = [](const Decided& of, const char* name) { return of.of(name).contraction->whole; };
  ASSERT_TRUE(kernel(d, "constant") && kernel(d, "phases")) << to_string(d.plan, d.input);
  EXPECT_TRUE(loads_ahead(*kernel(d, "constant")));
  EXPECT_EQ(kernel(d, "constant")->filter.at.space, Location::Space::constant);
  EXPECT_TRUE(loads_ahead(*kernel(d, "phases")));
  ASSERT_TRUE(kernel(d, "computed")) << to_string(d.plan, d.input);
  EXPECT_FALSE(loads_ahead(*kernel(d, "computed")));
  EXPECT_EQ(kernel(d, "computed")->filter.at.space, Location::Space::arena);
  const Decided off(net.build(), inputs, "kernels", {}, false);
  EXPECT_FALSE(loads_ahead(*kernel(off, "constant")));
}

// Kernels read a filter that is given, or computed, where it lies as they read it; else a launch packs it
TEST(ChooseKernels, FiltersThatAreNoConstantsArePackedUnlessTheyLieSo) {
  NetworkBuilder net("given");
  std::vector<Sizes> inputs;
  const auto given = [&](const char* name, const Sizes& sizes) {
    inputs.push_back(sizes);
    return net.input(name, Shape(sizes.begin(), sizes.end()));
  };
  const NetworkValue x = given("x", {2, 12, 8, 8}), rows = given("rows", {5, 16}), odd = given("odd", {5, 12});
  const NetworkValue wide = given("wide", {2, 16, 8, 8});
  const auto conv = [&](NetworkValue w) { return conv2d(x, w, {.pad = 1}); };
  const std::map<std::string, NetworkValue> as_they_lie{
      {"rows of a transposed one", relu(conv_transpose2d(wide, given("r", {16, 12, 3, 3}), {.pad = 1}))},
      {"by phases", conv_transpose2d(wide, given("u", {16, 24, 2, 2}), {.stride = 2})},
      {"input", relu(conv(given("w", {16, 12, 3, 3})))},
      {"product", relu(gemm(odd, given("m", {16, 12}), {.transpose_b = true}))},
      {"columns", relu(gemm(rows, given("k", {16, 24})))},
      {"groups", conv2d(given("grouped", {2, 32, 8, 8}), given("g", {32, 8, 3, 3}), {.pad = 1, .groups = 4})}};
  const std::map<std::string, NetworkValue> packed{
      {"few", conv(given("f", {12, 12, 3, 3}))},
      {"not 0 between", conv(sigmoid(given("s", {16, 12, 3, 3})))},
      {"depthwise", conv2d(given("deep", {2, 32, 8, 8}), given("d", {32, 1, 3, 3}), {.pad = 1, .groups = 32})},
      {"columns of odd rows", gemm(odd, given("n", {12, 16}))},
      {"transposed", conv_transpose2d(x, given("t", {12, 16, 3, 3}))},
      {"taps as channels", conv2d(given("colours", {2, 3, 8, 8}), given("stem", {16, 3, 3, 3}), {.pad = 1})}};
  for (const auto* all : {&as_they_lie, &packed})
    for (const auto& [name, value] : *all) net.output(value, name);
  const Decided d(net.build(), inputs, "kernels");
  const auto expect = [&](const std::string& name, Location::Space space) {
    SCOPED_TRACE(name);
    const auto& c = d.of(name.c_str()).contraction;
    ASSERT_TRUE(c && (c->whole || c->bare)) << to_string(d.plan, d.input);
    const FamilyKernel& kernel = c->whole ? *c->whole : *c->bare;
    EXPECT_EQ(kernel.filter.at.space, space);
    EXPECT_EQ(kernel.packing.has_value(), space == Location::Space::scratch);
    EXPECT_THAT(kernel.how, HasSubstr("that is no constant"));
  };
  for (const auto& [name, value] : as_they_lie) expect(name, Location::Space::arena);
  for (const auto& [name, value] : packed) expect(name, Location::Space::scratch);
}

// CTAs that exchange statistics, or the parts of a sum, wait for one another: they load no filters ahead, and say so
TEST(ChooseKernels, FiltersOfKernelsWhoseCtasWaitForOneAnotherAreNotLoadedAhead) {
  NetworkBuilder net("exchange");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 64, 32, 32});
  net.output(relu(weights.conv(x, 64)), "alone");
  net.output(relu(group_norm(weights.conv(x, 64), {.groups = 8})), "normalised");
  net.output(weights.conv(net.input("deep", {1, 1024, 8, 8}), 64), "split");
  const std::vector<Sizes> inputs{{2, 64, 32, 32}, {1, 1024, 8, 8}};
  const Decided d(net.build(), inputs, "kernels"), off(net.build(), inputs, "kernels", {}, false);
  const auto says = HasSubstr("filters not ahead");
  for (const char* name : {"alone", "normalised", "split"}) {
    SCOPED_TRACE(name);
    const auto& kernel = d.of(name).contraction->whole;
    ASSERT_TRUE(kernel) << to_string(d.plan, d.input);
    const bool waits = kernel->lowered.plan().cooperative;
    EXPECT_EQ(waits, std::string_view(name) != "alone") << kernel->how;
    EXPECT_EQ(kernel->filter.at.space, Location::Space::constant);
    EXPECT_EQ(loads_ahead(*kernel), !waits);
    EXPECT_EQ(kernel->lowered.problem.filters_ahead, !waits);
    EXPECT_EQ(kernel->how.find("filters not ahead") != std::string::npos, waits) << kernel->how;
    // the same plan and, but for the filters, the same text as where all kernels wait
    const auto& other = off.of(name).contraction->whole;
    ASSERT_TRUE(other);
    EXPECT_EQ(other->how.find("filters"), std::string::npos) << other->how;
    EXPECT_EQ(kernel->lowered.kernel.source == other->lowered.kernel.source, waits);
  }
  EXPECT_THAT(to_string(d.plan, d.input), says);
}

TEST(StoreResampled, InTheKernelOrApartWithTheReason) {
  NetworkBuilder net("pools");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 96, 40, 40});
  net.output(max_pool(weights.conv(x, 16)), "stored");
  net.output(max_pool(conv2d(x, weights({16, 96, 3, 3}), {.stride = 2, .pad = 1})), "apart");
  const Decided d(net.build(), {{2, 96, 40, 40}}, "kernels");
  std::vector<std::string> apart;
  int stored = 0;
  for (const RegionPlan& r : d.plan.regions) {
    if (!r.contraction) continue;
    if (r.beside == Beside::resampled)
      ++stored;
    else
      apart.push_back(r.apart ? r.apart->text() : "");
  }
  EXPECT_EQ(stored, 1) << to_string(d.plan, d.input);
  EXPECT_THAT(apart, testing::ElementsAre(HasSubstr("pooled: ")));
}

// Sums of taps are 16/9 of the filter's bytes, which two pixels of many channels do not make up for
TEST(UpsampledImages, ByPhasesUnlessItIsFasterToUpsampleFirst) {
  const auto form = [](std::int64_t channels, const Sizes& image) {
    NetworkBuilder net("upsampled");
    Weights weights(net);
    const NetworkValue x = net.input("x", {image[0], image[1], image[2], image[3]});
    net.output(weights.conv(upsample(x), channels), "y");
    const Decided d(net.build(), {image}, "kernels");
    const auto& c = d.of("y").contraction;
    EXPECT_TRUE(c && c->whole) << to_string(d.plan, d.input);
    return std::pair(c->whole->form, c->whole->how);
  };
  EXPECT_EQ(form(64, {2, 64, 32, 32}).first, Form::phases);
  const auto [slow, how] = form(1280, {1, 1280, 1, 2});
  EXPECT_EQ(slow, Form::upsampled);
  EXPECT_THAT(how, HasSubstr("us predicted"));
}

// What is decided once is written down once: a kernel each, and what the plan says
TEST(Emission, FollowsThePlan) {
  NetworkBuilder net("emission");
  Weights weights(net);
  const NetworkValue x = net.input("x", {2, 16, 8, 8});
  const NetworkValue y = relu(weights.conv(x, 144));
  net.output(conv2d(y, weights({20, 72, 3, 3}), {.pad = 1, .groups = 2}), "z");
  Decided d(net.build(), {{2, 16, 8, 8}}, "kernels");
  const LaunchSequence launches = emit(d.input, d.plan);
  std::vector<std::string> how;
  for (const auto& step : launches.steps) how.push_back(step->how);
  EXPECT_THAT(how, testing::ElementsAre("plain kernel", HasSubstr(" tiles, "), HasSubstr("its filters are in 2 groups"),
                                        Says("plain kernel … tensor: "), "plain kernel"));
  EXPECT_EQ(launches.kept_bytes, 0u);
  EXPECT_GE(launches.scratch_bytes, std::size_t{4 * 2 * 8 * 8 * 20}) << "the sums";
}

}  // namespace
}  // namespace unisono::network::gpu
