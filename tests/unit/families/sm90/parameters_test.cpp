// The kernel's parameter: geometry, places in the workspace, and the layout that both compilers must agree on.

#include "families/sm90/parameters.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "families/sm90_conv/parameters.hpp"
#include "families/sm90_depthwise/parameters.hpp"
#include "kernels/params_layout.hpp"
#include "unisono/error.hpp"

namespace unisono::families::sm90 {
namespace {

using sm90_conv::place_workspace;

TEST(Parameters, Geometry) {
  const Conv2d conv{.n = 2,
                    .h = 9,
                    .w = 12,
                    .c = 72,
                    .k = 40,
                    .r = 3,
                    .s = 5,
                    .stride = {2, 1},
                    .pad = {1, 2, 0, 3},
                    .dilation = {2, 1}};
  sm90_conv::ConvPlan p;
  p.images = 2, p.rows = 33, p.tiles_m = 4, p.tiles_n = 5, p.tiles = 40, p.tiles_w = 6, p.channel_blocks = 2,
  p.splits = 3;
  const ConvGeometry g = sm90_conv::geometry(conv, p);
  const Extents e = extents(conv);
  EXPECT_EQ(g.images, 2);
  EXPECT_EQ(g.rows, 33);
  EXPECT_EQ(g.channels, 40);
  EXPECT_EQ(g.tiles_m, 4);
  EXPECT_EQ(g.tiles_n, 5);
  EXPECT_EQ(g.tiles, 40);
  EXPECT_EQ(g.height, e.height);
  EXPECT_EQ(g.width, e.width);
  EXPECT_EQ(g.tiles_w, 6);
  EXPECT_EQ(g.taps_h, 3);
  EXPECT_EQ(g.taps_w, 5);
  EXPECT_EQ(g.channel_blocks, 2);
  EXPECT_EQ(g.splits, 3);
  EXPECT_EQ(g.stride_h, 2);
  EXPECT_EQ(g.stride_w, 1);
  EXPECT_EQ(g.pad_h, 1);
  EXPECT_EQ(g.pad_w, 2);
  EXPECT_EQ(g.dilation_h, 2);
  EXPECT_EQ(g.dilation_w, 1);
}

// A divisor for each number that tiles and pixels are divided by; a geometry without such a number never divides by 0
TEST(Parameters, GeometryHasItsDivisors) {
  const auto divides = [](const Divisor& by, int x) {
    return static_cast<int>(u64{static_cast<u32>(x)} * by.factor >> by.shift);
  };
  ConvGeometry g{};
  g.tiles_m = 7, g.tiles_n = 12, g.height = 56, g.width = 33, g.tiles_w = 5, g.splits = 3;
  set_divisors(g, 4);
  for (const int x : {0, 1, 11, 12, 13, 83, 84, 85, 1847, 1848, 1849, 1 << 20, 0x7fffffff}) {
    EXPECT_EQ(divides(g.by_tiles_n, x), x / 12);
    EXPECT_EQ(divides(g.by_tiles_m, x), x / 7);
    EXPECT_EQ(divides(g.by_image, x), x / 84);
    EXPECT_EQ(divides(g.by_group, x), x / 48);
    EXPECT_EQ(divides(g.by_phase, x), x / 3);
    EXPECT_EQ(divides(g.by_tiles_w, x), x / 5);
    EXPECT_EQ(divides(g.by_width, x), x / 33);
    EXPECT_EQ(divides(g.by_pixels, x), x / 1848);
    EXPECT_EQ(divides(g.by_splits, x), x / 3);
  }
  ConvGeometry none{};
  set_divisors(none, 0);
  EXPECT_EQ(divides(none.by_image, 5), 5);
  EXPECT_EQ(divides(none.by_phase, 5), 5);
}

TEST(Parameters, OfDepthwiseConvolutions) {
  const Conv2d conv{.n = 3,
                    .h = 41,
                    .w = 30,
                    .c = 24,
                    .k = 24,
                    .r = 3,
                    .s = 3,
                    .pad = {2, 1, 2, 1},
                    .dilation = {2, 1},
                    .groups = 24};
  sm90_depthwise::DepthwisePlan p;
  p.tiles_n = 3;
  p.config.strip = {.rows = 5, .pixels = 4, .channels = 4, .taps_h = 3, .taps_w = 3};
  int memory = 0;
  const DepthwiseImage d = sm90_depthwise::depthwise_image(conv, p, &memory, 32);
  EXPECT_EQ(d.memory, &memory);
  EXPECT_EQ(d.step_image, 41u * 30 * 32);
  EXPECT_EQ(d.step_h, 30 * 32);
  EXPECT_EQ(d.step_w, 32);
  EXPECT_EQ(sm90_depthwise::depthwise_image(conv, p, &memory).step_w, 24);
  EXPECT_EQ(d.lattice_h, 2);
  EXPECT_EQ(d.lattice_w, 1);
  EXPECT_EQ(d.strip_lines, 5);
  EXPECT_EQ(d.image_strips, 10u * 8);  // 41 lines: 5 strips of 5 of each lattice; 30 pixels: 8 of 4
  EXPECT_EQ(d.strips, 240u);
  EXPECT_EQ(d.band_lines, 5u);
  EXPECT_EQ(d.band_strips, 40u);
}

// Nothing of it is in the place of anything else: addresses, the pitch, geometry, then the visitor's fields
TEST(Parameters, OfDepthwiseConvolutionsAreTheirOwn) {
  const Conv2d conv{.n = 1, .h = 8, .w = 8, .c = 24, .k = 24, .r = 3, .s = 3, .pad = {1, 1, 1, 1}, .groups = 24};
  sm90_depthwise::DepthwisePlan p;
  p.images = 1, p.rows = 64, p.tiles_m = 2, p.tiles_n = 3, p.tiles = 6;
  p.config.strip = {.rows = 5, .pixels = 4, .channels = 4, .taps_h = 3, .taps_w = 3};
  const std::array<int, 5> memory{};
  Tensors at{
      .activation = {&memory[0], 0}, .filter = {&memory[1], 1}, .output = {&memory[2], 2}, .side = {&memory[3], 3}};
  at.fields.add(reinterpret_cast<std::uintptr_t>(&memory[4]), 4);
  for (const std::int64_t pitch : {0, 40}) {
    at.output_pitch = pitch;
    Parameter to;
    to.bytes.at<DepthwiseParams>().geometry = sm90_depthwise::geometry(conv, p);
    sm90_depthwise::fill(to, conv, p, at);
    const DepthwiseParams& found = to.bytes.at<DepthwiseParams>();
    EXPECT_TRUE(to.maps.empty()) << "no TMA";
    const auto image = to.bytes.at<DepthwiseImage>(offsetof(DepthwiseParams, image));
    const auto output = to.bytes.at<PitchedOutput>(offsetof(DepthwiseParams, output));
    EXPECT_EQ(image.memory, &memory[0]);
    EXPECT_EQ(to.bytes.at<DepthwiseFilter>(offsetof(DepthwiseParams, filter)).memory, &memory[1]);
    EXPECT_EQ(output.memory, &memory[2]);
    EXPECT_EQ(output.pitch, pitch == 0 ? 24u : 40u);
    EXPECT_EQ(found.side_memory, &memory[3]);
    EXPECT_EQ(found.geometry.channels, 24);
    EXPECT_EQ(found.geometry.tiles_n, 3);
    EXPECT_EQ(to.bytes.at<const int*>(sizeof(DepthwiseParams)), &memory[4]);
    std::vector<std::size_t> slots;
    for (const Site& site : to.sites) slots.push_back(site.slot);
    EXPECT_EQ(slots, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  }
  EXPECT_EQ(sm90_depthwise::parameter_bytes(0).value(), sizeof(DepthwiseParams) + 64);
  EXPECT_EQ(sm90_depthwise::parameter_bytes(1).value(), sizeof(DepthwiseParams) + 64);
  EXPECT_EQ(sm90_depthwise::parameter_bytes(9).value(), sizeof(DepthwiseParams) + 128);
  EXPECT_EQ(sm90_depthwise::parameter_bytes(most_fields + 1).refusal().text(),
            "the epilogue reads 385 operands; a kernel's parameters hold 384");
}

// Exact for every number below 2^31
TEST(Parameters, DividesByMultiplying) {
  const auto divided = [](std::uint32_t x, const Divisor& by) {
    return static_cast<std::uint32_t>(std::uint64_t{x} * by.factor >> by.shift);
  };
  constexpr std::uint32_t most = 0x7fffffff;
  for (std::uint32_t d = 1; d < 3000; ++d)
    for (const std::uint32_t by : {d, most / d, most - d}) {
      const Divisor divisor = unisono::divisor(by);
      for (const std::uint32_t x :
           {0u, 1u, by - 1, by, by + 1, most / by * by, most / by * by - 1, most - 1, most, d * 7919u})
        if (x <= most) {
          ASSERT_EQ(divided(x, divisor), x / by) << x << " by " << by;
        }
    }
}

// What blocks count, divided, is the number of launches before, whichever blocks of this one have left; to the last
// launch ahead of 0
TEST(Parameters, EpochOfAnyCountOfExits) {
  for (const int blocks : {1, 2, 66, 120, 131, 132, 264, 65535}) {
    sm90_conv::ConvPlan p;
    p.workspace = {.bytes = 256};
    p.ctas = blocks;
    ConvParams params{};
    place_workspace(params, p, {}, 0x7f0000000000);
    const EpochParams& e = params.launch;
    const auto epoch = [&](u64 exits) { return exits * e.by_ctas.factor >> e.by_ctas.shift; };
    EXPECT_EQ(u64{e.last} + 1, u64{kEpochs} * static_cast<u64>(blocks));
    EXPECT_LT(e.last, u64{1} << 31);
    for (const u64 launch : {u64{0}, u64{1}, u64{2}, u64{kEpochs / 2 - 1}, u64{kEpochs - 2}, u64{kEpochs - 1}})
      for (const u64 left : {u64{0}, u64{1} * static_cast<u64>(blocks) / 2, static_cast<u64>(blocks) - 1})
        EXPECT_EQ(epoch(launch * static_cast<u64>(blocks) + left), launch) << blocks << " blocks, " << left << " left";
  }
}

TEST(Parameters, PlacesInTheWorkspace) {
  sm90_conv::ConvPlan p;
  p.config.schedule.split = true;
  p.workspace = {.bytes = 4096, .exits = 256, .slots = 512, .segments = 1024, .flags = 2048, .partials = 2304};
  p.ctas = 120;
  p.slots_per_image = 7, p.segment_slots = 3, p.segments_per_image = 3;
  plan::Epilogue epilogue;
  epilogue.channels = 40;
  epilogue.stages.push_back(
      {.statistics = {{.domain = {.rows = true, .cols = true, .per_image = true, .groups = 4}, .folds = {}}},
       .affine = passes::Affine{}});
  ConvParams params{};
  constexpr std::uint64_t base = 0x7f0000000000;
  const auto address = [](const void* at) { return reinterpret_cast<std::uint64_t>(at); };
  place_workspace(params, p, epilogue, base);
  EXPECT_EQ(address(params.launch.exits), base + 256);
  EXPECT_EQ(params.launch.last, 120u * 32768 - 1);
  EXPECT_EQ(params.launch.by_ctas.factor, divisor(120).factor);
  EXPECT_EQ(address(params.norm.slots), base + 512);
  EXPECT_EQ(address(params.norm.segments), base + 1024);
  EXPECT_EQ(address(params.split.flags), base + 2048);
  EXPECT_EQ(address(params.split.partials), base + 2304);
  EXPECT_EQ(params.norm.slots_per_image, 7);
  EXPECT_EQ(params.norm.segment_slots, 3);
  EXPECT_EQ(params.norm.segments_per_image, 3);
  EXPECT_EQ(params.norm.group_channels, 10);
  EXPECT_EQ(params.norm.by_common_channels.factor, divisor(640).factor);  // of groups of 10, tiles of 128

  ConvParams none{};
  p.workspace = {};
  place_workspace(none, p, epilogue, base);
  EXPECT_EQ(none.launch.exits, nullptr);
  EXPECT_EQ(none.norm.slots, nullptr);
}

TEST(Parameters, Bytes) {
  EXPECT_EQ(parameter_bytes(0), sizeof(ConvParams) + 64);
  EXPECT_EQ(parameter_bytes(1), sizeof(ConvParams) + 64);
  EXPECT_EQ(parameter_bytes(8), sizeof(ConvParams) + 64);
  EXPECT_EQ(parameter_bytes(9), sizeof(ConvParams) + 128);
  EXPECT_LE(parameter_bytes(most_fields), sizeof(Parameters));
  EXPECT_EQ(parameter_bytes(0, 5), sizeof(ConvParams) + 5 * 128 + 64);
  EXPECT_EQ(parameter_bytes(3, 4), sizeof(ConvParams) + 4 * 128 + 64);
  EXPECT_EQ(checked_parameter_bytes(3, 2).value(), sizeof(ConvParams) + 2 * 128 + 64);
  EXPECT_FALSE(checked_parameter_bytes(380, 1));
  EXPECT_FALSE(checked_parameter_bytes(1, 24));
}

}  // namespace
}  // namespace unisono::families::sm90
