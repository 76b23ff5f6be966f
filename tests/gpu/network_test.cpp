// Whole networks: agreement with float64 at every output, and which kernels they are made of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "network/cuda/run/plan.hpp"
#include "support/says.hpp"

namespace unisono::gpu {
namespace {

void agrees(const Network& network, const Shapes& shapes, DType precision = DType::bf16) {
  const NetworkOptions options = on_gpu(precision);
  const NetworkExecutable executable = compile(network, options);
  const HostTensors inputs = random_inputs(shapes, 1);
  const HostTensors outputs = run(executable, inputs);
  expect_agreement(executable, options, inputs, outputs);
  const HostTensors again = run(executable, inputs);  // a replay of the same graph
  for (const auto& [name, t] : outputs)
    EXPECT_EQ(t.data, again.at(name).data) << name << ": another replay, other bits";
}

void agrees(std::size_t which) {
  const NetworkCase& c = network_cases()[which];
  agrees(c.make(), c.shapes, c.precision);
}

TEST(NetworkSmall, UNetAgrees) { agrees(0); }
TEST(NetworkSmall, ResidualBlockAgrees) { agrees(1); }
TEST(NetworkSmall, OdditiesAgree) { agrees(2); }
TEST(NetworkSmall, ClassifierAgrees) { agrees(3); }
TEST(NetworkSmall, NormalisationsAgree) { agrees(7); }
TEST(NetworkSmall, NormalisationsOfLargerImagesAgree) { agrees(8); }
TEST(NetworkSmall, StemsAgree) { agrees(9); }
TEST(NetworkSmall, PoolsAndUpsamplingsAgree) { agrees(10); }
TEST(NetworkSmall, UpsampledImagesAgree) { agrees(11); }
TEST(NetworkSmall, UpsampledImagesInF16Agree) { agrees(12); }
TEST(NetworkSmall, EmbeddingsAgree) { agrees(15); }
TEST(Network, EmbeddingsOfOneImageInF16) { agrees(16); }
TEST(NetworkSmall, NormalisationsOfConcatenationsAgree) { agrees(17); }
TEST(Network, NormalisationsOfConcatenationsInF16Agree) { agrees(18); }

TEST(NetworkSmall, ExportedNormalisationsAgree) { agrees(21); }
TEST(NetworkSmall, DenseLayersAgree) { agrees(22); }
TEST(Network, DenseLayersInF16Agree) { agrees(23); }
TEST(NetworkSmall, InvertedBottlenecksAgree) { agrees(19); }
TEST(NetworkSmall, PackedAttentionAgrees) { agrees(26); }
TEST(NetworkSmall, PackedAttentionInF16Agrees) { agrees(27); }
TEST(NetworkSmall, MaskedAttentionAgrees) { agrees(28); }
TEST(NetworkSmall, CrossAttentionAgrees) { agrees(29); }
TEST(Network, CrossAttentionOfManyRowsAgrees) { agrees(30); }
TEST(NetworkSmall, ProductsOfTensorsAgree) { agrees(31); }
TEST(NetworkSmall, AttentionOfWideHeadsAgrees) { agrees(32); }
TEST(NetworkSmall, AttentionOfOneRowAgrees) { agrees(33); }
TEST(NetworkSmall, AttentionOf131RowsAgrees) { agrees(34); }
TEST(NetworkSmall, AttentionOf150RowsAgrees) { agrees(35); }
TEST(NetworkSmall, AttentionOf140RowsOfWideHeadsAgrees) { agrees(36); }
TEST(NetworkSmall, AttentionOfSharedKeysAgrees) { agrees(37); }

std::size_t place_of(std::string_view name) {
  const auto& all = network_cases();
  const auto found = std::ranges::find(all, name, &NetworkCase::name);
  if (found == all.end()) throw std::logic_error("no case of a network is called " + std::string(name));
  return static_cast<std::size_t>(found - all.begin());
}

TEST(NetworkSmall, AttentionOf512ColumnsAgrees) { agrees(place_of("attention of 512 columns")); }
TEST(NetworkSmall, AttentionOf300ColumnsInF16Agrees) { agrees(place_of("attention of 300 columns in f16")); }
TEST(NetworkSmall, AttentionOfRepeatedKeysAgrees) { agrees(place_of("attention of repeated keys")); }
TEST(NetworkSmall, RotatedHeadsAgree) { agrees(place_of("rotated heads")); }
TEST(NetworkSmall, RotatedHeadsInF16Agree) { agrees(place_of("rotated heads in f16")); }
TEST(NetworkSmall, RotatedHeadsOf6ColumnsAgree) { agrees(place_of("rotated heads of 6 columns")); }
TEST(NetworkSmall, NormalisedLinesAgree) { agrees(place_of("normalised lines")); }
TEST(NetworkSmall, NormalisedLinesInF16Agree) { agrees(place_of("normalised lines in f16")); }
TEST(NetworkSmall, NormalisedLinesOf304ColumnsAgree) { agrees(place_of("normalised lines of 304 columns")); }
TEST(NetworkSmall, WindowsAndResidualsAgree) { agrees(place_of("windows and residuals")); }
TEST(NetworkSmall, WindowsAndResidualsInF16Agree) { agrees(place_of("windows and residuals in f16")); }
TEST(NetworkSmall, GradientsOfImagesAgree) { agrees(place_of("gradients of images")); }
TEST(NetworkSmall, FilterGradientsAgree) { agrees(place_of("filter gradients")); }
TEST(NetworkSmall, FilterGradientsInF16Agree) { agrees(place_of("filter gradients in f16")); }
TEST(NetworkSmall, FilterGradientsThatAreReadAgree) { agrees(place_of("filter gradients that are read")); }
TEST(NetworkSmall, GatedUnitsAgree) { agrees(place_of("gated units")); }
TEST(NetworkSmall, GatedUnitsInF16Agree) { agrees(place_of("gated units in f16")); }
TEST(NetworkSmall, GatedConvolutionsAgree) { agrees(place_of("gated convolutions")); }
TEST(Network, GatedConvolutionsInF16Agree) { agrees(place_of("gated convolutions in f16")); }
TEST(NetworkSmall, LossesAgree) { agrees(place_of("losses")); }
TEST(NetworkSmall, LossesInF16Agree) { agrees(place_of("losses in f16")); }
TEST(NetworkSmall, PooledConvolutionsAgree) { agrees(place_of("pooled convolutions")); }
TEST(NetworkSmall, PooledConvolutionsInF16Agree) { agrees(place_of("pooled convolutions in f16")); }
TEST(NetworkSmall, SqueezeExcitationsAgree) { agrees(place_of("squeeze and excitation")); }
TEST(Network, SqueezeExcitationsInF16Agree) { agrees(place_of("squeeze and excitation in f16")); }
TEST(NetworkSmall, VolumesAgree) { agrees(place_of("volumes")); }
TEST(NetworkSmall, VolumesInF16Agree) { agrees(place_of("volumes in f16")); }
TEST(NetworkSmall, GivenFiltersAgree) { agrees(place_of("given filters")); }
TEST(NetworkSmall, GivenFiltersInF16Agree) { agrees(place_of("given filters in f16")); }
// As many as take tiles of 128 queries, on the emulated GPU and on a real one
TEST(NetworkSmall, AttentionOf24NarrowHeadsAgrees) { agrees(place_of("attention of 24 narrow heads")); }
TEST(Network, AttentionOf136NarrowHeadsAgrees) { agrees(place_of("attention of 136 narrow heads")); }
TEST(Network, BlockOfVolumesAgrees) { agrees(place_of("a block of volumes")); }
TEST(Network, StreamedBlockOfVolumesAgrees) { agrees(place_of("a streamed block of volumes")); }
TEST(Network, StridedBlockOfVolumesAgrees) { agrees(place_of("a strided block of volumes")); }

// A convolution of volumes with its normalisation and activation is one launch, between the changes of order
TEST(NetworkSmall, ABlockOfVolumesIsOneLaunch) {
  for (const char* name : {"a block of volumes", "a strided block of volumes"}) {
    const NetworkCase& c = network_cases()[place_of(name)];
    std::vector<std::string> all;
    for (const LaunchReport& l : explain_device(c.make(), on_gpu(c.precision), c.shapes).launches)
      all.push_back(l.what + ": " + l.how);
    // the input, its planes stacked, the block, its result in the order of its axes, the output
    EXPECT_EQ(all.size(), 5u) << testing::PrintToString(all);
    EXPECT_THAT(all, testing::Contains(testing::AllOf(testing::HasSubstr("conv3d"), testing::HasSubstr(" volumes"))));
  }
}

// Sums of pixels in parts, and of one part alone, are on the tensor cores; so are gradients of images
TEST(NetworkSmall, GradientsAreOnTheTensorCores) {
  const auto on_device = [](const char* name) {
    const NetworkCase& c = network_cases()[place_of(name)];
    return explain_device(c.make(), on_gpu(c.precision), c.shapes).launches;
  };
  bool has_parts = false, is_whole = false;
  for (const LaunchReport& l : on_device("filter gradients")) {
    EXPECT_FALSE(l.on_host) << l.what;
    if (l.how.find("filter gradient kernel") == std::string::npos) continue;
    (l.how.find(" parts, ") != std::string::npos ? has_parts : is_whole) = true;
  }
  EXPECT_TRUE(has_parts && is_whole);
  int kernels = 0;
  for (const LaunchReport& l : on_device("gradients of images"))
    kernels += l.how.find("that is no constant") != std::string::npos;
  EXPECT_EQ(kernels, 5);
}

// Lines of the launches that compute, without the changes of layout at the border
std::vector<std::string> computing(const char* name) {
  const NetworkCase& c = network_cases()[place_of(name)];
  std::vector<std::string> all;
  for (const LaunchReport& l : explain_device(c.make(), on_gpu(c.precision), c.shapes).launches) {
    EXPECT_FALSE(l.on_host) << l.what;
    if (!l.what.starts_with("change of layout")) all.push_back(l.name + ": " + l.what + ": " + l.how);
  }
  return all;
}

// On the tensor cores, each with what follows it but for the norm of few channels
TEST(NetworkSmall, NoGivenFilterIsOneSumAThread) {
  for (const std::string& line : computing("given filters"))
    EXPECT_THAT(line, testing::Not(testing::HasSubstr("windows")));
}

// Three of them are, and what is none stays apart
TEST(NetworkSmall, AGatedUnitIsOneLaunch) {
  const auto all = computing("gated units");
  EXPECT_THAT(all, testing::Contains(testing::HasSubstr(" dual")).Times(3)) << testing::PrintToString(all);
}

// Three of them are, those of few pixels and those of two images two launches, and what is none stays apart
TEST(NetworkSmall, AGatedConvolutionIsOneLaunch) {
  const auto all = computing("gated convolutions");
  EXPECT_THAT(all, testing::Contains(testing::HasSubstr(" dual")).Times(3)) << testing::PrintToString(all);
  EXPECT_THAT(all, testing::Contains(testing::HasSubstr("one of two launches")).Times(1))
      << testing::PrintToString(all);
}

TEST(NetworkSmall, ALossIsInItsProductsLaunch) {
  const auto all = computing("losses");
  EXPECT_EQ(all.size(), 4u) << testing::PrintToString(all);
  EXPECT_THAT(all, testing::Each(testing::HasSubstr(", reduces '")));
}

// Both layers are one launch, with the pool unless the convolution ahead, or another reader, has it
TEST(NetworkSmall, TwoLayersOfAPoolAreOneLaunch) {
  const auto all = computing("squeeze and excitation");
  const auto is = [](const char* text) { return testing::Contains(testing::HasSubstr(text)); };
  EXPECT_THAT(all, is("small layers, 8 CTAs an image, 24 CTAs").Times(5)) << testing::PrintToString(all);
  EXPECT_THAT(all, is("global_average_pool (batch,2100,3,3) -> (batch,2100,1,1), then conv2d").Times(1));
}

// Every attention is one launch, and reads q, k and v where their products leave them
TEST(NetworkSmall, AttentionIsOneLaunch) {
  const auto launches = [](std::size_t which) {
    const NetworkCase& c = network_cases()[which];
    std::vector<std::string> all;
    for (const LaunchReport& l : explain_device(c.make(), on_gpu(c.precision), c.shapes).launches) {
      EXPECT_FALSE(l.on_host) << l.what;
      all.push_back(l.what + ": " + l.how);
    }
    return all;
  };
  // the input, the packed product, attention, the last product, the output
  const auto packed = launches(26);
  EXPECT_EQ(packed.size(), 5u) << testing::PrintToString(packed);
  EXPECT_THAT(packed, testing::Contains(testing::HasSubstr("attention kernel, mma.sync, tiles of 64 queries")));
  EXPECT_THAT(packed, testing::Not(testing::Contains(testing::HasSubstr("gathered"))));
  EXPECT_THAT(launches(27), testing::Contains(testing::HasSubstr("attention kernel, wgmma, tiles of 64 queries")));
  EXPECT_THAT(launches(34), testing::Contains(testing::HasSubstr("attention kernel, wgmma, tiles of 128 queries")));
  EXPECT_THAT(
      launches(place_of("attention of 512 columns")),
      testing::Contains(testing::HasSubstr("attention kernel, mma.sync, tiles of 64 queries, 32 keys at a time, "
                                           "values in 2 parts, 8 CTAs")));
  EXPECT_THAT(launches(place_of("attention of 300 columns in f16")),
              testing::Contains(testing::HasSubstr("values in 2 parts, gathered")));
  const auto masked = launches(28);
  EXPECT_THAT(masked, testing::Contains(testing::HasSubstr("attention kernel")).Times(2));
  EXPECT_THAT(masked, testing::Not(testing::Contains(testing::HasSubstr("softmax"))));
}
TEST(Network, InvertedBottlenecksInF16Agree) { agrees(20); }
TEST(NetworkSmall, GroupedBottlenecksAgree) { agrees(24); }
TEST(Network, GroupedBottlenecksInF16Agree) { agrees(25); }

// With what follows them, but for odd channels
TEST(NetworkSmall, ConvolutionsOfGroupsAreOnTheTensorCores) {
  const NetworkCase& c = network_cases()[24];
  std::string all;
  int tiles = 0, sums = 0;
  for (const LaunchReport& l : explain_device(c.make(), on_gpu(), c.shapes).launches) {
    all += l.name + ": " + l.what + ": " + l.how + "\n";
    tiles += l.what.find(", groups ") != std::string::npos && l.how.find("CTAs of") != std::string::npos ? 1 : 0;
    sums += l.how.starts_with("convolution, ") ? 1 : 0;
  }
  EXPECT_EQ(tiles, 4) << all;
  EXPECT_EQ(sums, 1) << all;
  EXPECT_THAT(all, testing::HasSubstr(" stationary groups 4x4, "));
}

// But for odd channels by kernels of their own, with what follows; with a normalisation by tiles of several groups
TEST(NetworkSmall, DepthwiseConvolutionsHaveKernelsOfTheirOwn) {
  const NetworkCase& c = network_cases()[19];
  std::string all;
  int own = 0, sums = 0;
  for (const LaunchReport& l : explain_device(c.make(), on_gpu(), c.shapes).launches) {
    all += l.name + ": " + l.what + ": " + l.how + "\n";
    own += l.how.starts_with("depthwise ") ? 1 : 0;
    sums += l.how.starts_with("convolution, ") ? 1 : 0;
  }
  EXPECT_EQ(own, 5) << all;
  EXPECT_EQ(sums, 1) << all;
  EXPECT_THAT(all, Says("pads 'relu_26' … padded … to 40 channels"));  // for what reads it
  EXPECT_THAT(all, testing::HasSubstr(" stationary resident groups 1x1, "));
  EXPECT_THAT(all, Says("not packed … (depthwise: 37 channels"));
}

// Three of the five without a pass over the concatenation; what stores moments is read
TEST(NetworkSmall, StatisticsOfConcatenationsComeFromTheirProducers) {
  const NetworkCase& c = network_cases()[17];
  const DeviceReport report = explain_device(c.make(), on_gpu(), c.shapes);
  std::string all;
  for (const LaunchReport& l : report.launches) all += l.name + ": " + l.what + ": " + l.how + "\n";
  const auto count = [&](std::string_view text) {
    std::ptrdiff_t times = 0;
    for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++times;
    return times;
  };
  EXPECT_EQ(count("' from its producers '"), 3) << all;
  EXPECT_EQ(count(", statistics of '"), 5) << all;
  EXPECT_EQ(count(": statistics of group_norm"), 2) << all;
  EXPECT_THAT(all, Says("plain kernel … : no kernel … makes 'x'"));
  EXPECT_THAT(all, testing::HasSubstr("stores none: statistics: the same launch normalises"));
}

TEST(Network, UpsampledImageOf640Channels) { agrees(13); }
TEST(Network, TwoUpsampledPixelsOf1280Channels) { agrees(14); }

// By phases where that is predicted to be faster; filters of four times the taps are not worth it for two pixels
TEST(NetworkSmall, UpsampledImagesByPhases) {
  const auto launches = [](std::size_t which, std::string_view text) {
    const NetworkCase& c = network_cases()[which];
    const DeviceReport report = explain_device(c.make(), on_gpu(), c.shapes);
    std::ptrdiff_t count = 0;
    for (const LaunchReport& l : report.launches)
      count += (l.what + " " + l.how).find(text) != std::string::npos ? 1 : 0;
    return count;
  };
  EXPECT_EQ(launches(11, " by parity"), 6);
  EXPECT_EQ(launches(11, "its image upsampled"), 0);
  EXPECT_EQ(launches(13, " by parity"), 1);
  // two pixels: by phases or not, as the machine's SMs make the one or the other faster
  const auto upsampled_first = launches(14, "its image upsampled");
  EXPECT_GE(launches(14, " by parity"), 1 - upsampled_first);
  EXPECT_EQ(launches(14, " of an upsampled image: "), upsampled_first);
}

TEST(Network, UNetInF16) { agrees(4); }
TEST(Network, UNetOfFourLevels) { agrees(5); }
TEST(Network, ResidualBlockOf320Channels) { agrees(6); }

TEST(Network, KernelNodesOfTheBaselineUNet) {
  const Network network =
      heatmap_unet({.inputs = 8, .classes = 17, .channels = {64, 128, 256, 512, 1024}, .groups = 16});
  int contractions = 0;
  for (const Operator& op : network.operators)
    contractions += std::holds_alternative<operators::Conv2d>(op.kind) ? 1 : 0;
  const DeviceReport report = explain_device(network, on_gpu(), {{"image", {8, 8, 256, 256}}});
  std::printf("%zu kernel nodes for %d convolutions\n", report.launches.size(), contractions);
  RecordProperty("kernel_nodes", static_cast<int>(report.launches.size()));
  EXPECT_GE(report.launches.size(), static_cast<std::size_t>(contractions));
  int tensor_cores = 0;
  for (const LaunchReport& l : report.launches) tensor_cores += l.how.find("CTAs of") != l.how.npos ? 1 : 0;
  EXPECT_EQ(tensor_cores, contractions) << to_string(report);
}

// Shapes come and go; more than are kept
TEST(NetworkSmall, SeveralShapes) {
  const Network network = classifier(24, 10);
  NetworkOptions options = on_gpu();
  options.cached_plans = 2;
  const NetworkExecutable executable = compile(network, options);
  for (const int round : {0, 1})
    for (const std::int64_t batch : {1, 2, 3}) {
      const HostTensors inputs = random_inputs({{"x", {batch, 24, 5, 4 + round}}}, 7);
      expect_agreement(executable, options, inputs, run(executable, inputs));
    }
}

}  // namespace
}  // namespace unisono::gpu
