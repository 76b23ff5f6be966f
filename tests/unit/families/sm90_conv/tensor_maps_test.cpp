// Tensor maps: the boxes that TMA is told of.

#include "families/sm90_conv/tensor_maps.hpp"

#include <gtest/gtest.h>

#include <random>

#include "families/sm90/phases.hpp"
#include "families/sm90_conv/shared_memory.hpp"

namespace unisono::families::sm90_conv {
namespace {

ConvPlan plan_of(const Conv2d& conv, ConvConfig config, bool per_image) {
  const Extents e = extents(conv);
  ConvPlan p;
  p.config = config;
  p.images = per_image ? static_cast<int>(e.images) : 1;
  p.rows = static_cast<int>(per_image ? e.rows_per_image() : e.rows());
  return p;
}

TEST(TensorMaps, RowsApart) {
  MapShape m{.rank = 4, .extents = {16, 5, 4, 2}, .strides = {32, 160, 640}};
  EXPECT_EQ(with_pitch(m, 0), m);
  EXPECT_EQ(with_pitch(m, 16), m);
  const std::array<std::uint64_t, 4> expected{80, 400, 1600};
  EXPECT_EQ(with_pitch(m, 40).strides, expected);
}

TEST(TensorMaps, VolumesAreIm2colOfFiveDimensions) {
  Conv3d v{.n = 2, .d = 7, .h = 9, .w = 12, .c = 24, .k = 40, .t = 2, .r = 3, .s = 5};
  v.stride = {2, 3, 1}, v.before = {0, 1, 2}, v.after = {1, 0, 3}, v.dilation = {3, 2, 1};
  const plan::ConvTask task = plan::as_convolution(v);
  ConvPlan p;
  p.config = {.tile = {.m = 128, .n = 160, .k = 32}, .loader = Im2colTile{Im2colTile::Box::voxels}};
  p.images = 2, p.rows = static_cast<int>(extents(v).rows_per_image());
  const MapShapes m = map_shapes(task, p);
  EXPECT_TRUE(m.activation.im2col);
  EXPECT_EQ(m.activation.rank, 5);
  EXPECT_EQ(m.activation.extents, (std::array<std::uint64_t, 5>{24, 12, 9, 7, 2}));
  EXPECT_EQ(m.activation.strides, (std::array<std::uint64_t, 4>{48, 48 * 12, 48 * 12 * 9, 48 * 12 * 9 * 7}));
  EXPECT_EQ(m.activation.lower, (std::array<int, 3>{-2, -1, 0}));
  EXPECT_EQ(m.activation.upper, (std::array<int, 3>{3 - 4, 0 - 4, 1 - 3}));
  EXPECT_EQ(m.activation.steps, (std::array<std::uint32_t, 5>{1, 1, 3, 2, 1}));
  EXPECT_EQ(m.filter.extents, (std::array<std::uint64_t, 5>{24, 2 * 3 * 5, 40, 1}));  // taps of all planes
  EXPECT_EQ(m.output.extents[1], static_cast<std::uint64_t>(p.rows));                 // planes are one image
  EXPECT_FALSE(plan::as_convolution(Conv3d{.n = 2, .d = 7, .h = 9, .w = 12, .c = 24, .k = 40}).volume);
}

TEST(TensorMaps, HaloTilesOfVolumesAreBoxesOfAPlane) {
  Conv3d v{.n = 2, .d = 7, .h = 9, .w = 12, .c = 24, .k = 40, .t = 2, .r = 3, .s = 5};
  v.stride = {2, 1, 1}, v.before = {0, 1, 2}, v.after = {1, 1, 2}, v.dilation = {3, 2, 1};
  const plan::ConvTask task = plan::as_convolution(v);
  ConvPlan p;
  p.config = {.tile = {.m = 64, .n = 40, .k = 32}, .loader = HaloTile{.halo_h = 4, .halo_w = 4, .of_plane = true}};
  p.images = 2, p.rows = static_cast<int>(extents(v).rows_per_image());
  const MapShapes m = map_shapes(task, p);
  EXPECT_FALSE(m.activation.im2col);
  EXPECT_EQ(m.activation.extents, (std::array<std::uint64_t, 5>{24, 12, 9, 7, 2}));
  EXPECT_EQ(m.activation.box, (std::array<std::uint32_t, 5>{32, 12, 12, 1, 1}));
  EXPECT_EQ(m.activation.swizzle_bytes, 64);
  EXPECT_EQ(m.filter.extents, (std::array<std::uint64_t, 5>{24, 2 * 3 * 5, 40, 1}));
  EXPECT_EQ(m.output.extents, (std::array<std::uint64_t, 5>{40, 12, 7, 3 * 2}));  // planes of all volumes
}

TEST(TensorMaps, RunsAreIm2col) {
  const Conv2d conv{.n = 2,
                    .h = 9,
                    .w = 12,
                    .c = 24,
                    .k = 40,
                    .r = 3,
                    .s = 5,
                    .stride = {2, 1},
                    .pad = {1, 2, 0, 3},
                    .dilation = {2, 1}};
  const MapShapes m = map_shapes(conv, plan_of(conv, {.tile = {.m = 128, .n = 160, .k = 32}}, false));
  EXPECT_TRUE(m.activation.im2col);
  EXPECT_EQ(m.activation.rank, 4);
  EXPECT_EQ(m.activation.extents, (std::array<std::uint64_t, 5>{24, 12, 9, 2}));
  EXPECT_EQ(m.activation.strides, (std::array<std::uint64_t, 4>{48, 48 * 12, 48 * 12 * 9}));
  EXPECT_EQ(m.activation.lower, (std::array<int, 3>{-2, -1}));
  EXPECT_EQ(m.activation.upper, (std::array<int, 3>{3 - 4, 0 - 4}));
  EXPECT_EQ(m.activation.channels, 32u);
  EXPECT_EQ(m.activation.pixels, 128u);
  EXPECT_EQ(m.activation.steps, (std::array<std::uint32_t, 5>{1, 1, 2, 1, 1}));
  EXPECT_EQ(m.activation.swizzle_bytes, 64);
  EXPECT_EQ(m.filter.extents, (std::array<std::uint64_t, 5>{24, 15, 40, 1}));
  EXPECT_EQ(m.filter.strides, (std::array<std::uint64_t, 4>{48, 48 * 15, 0}));
  EXPECT_EQ(m.filter.box, (std::array<std::uint32_t, 5>{32, 1, 160, 1}));
  const Extents e = extents(conv);
  EXPECT_EQ(m.output.extents, (std::array<std::uint64_t, 5>{40, static_cast<std::uint64_t>(e.rows()), 1, 1}));
  EXPECT_EQ(m.output.box, (std::array<std::uint32_t, 5>{32, 16, 1, 1}));
}

// Every second pixel of every second line of a tensor of twice the lines and pixels
TEST(TensorMaps, PartsOfALargerOutput) {
  const MapShape small{.rank = 4, .extents = {16, 5, 4, 2}, .strides = {32, 160, 640}, .box = {16, 8, 2, 1}};
  const MapShape large = doubled(small, 0), apart = doubled(small, 40), part = with_phase(large, 3);
  EXPECT_EQ(part.extents, small.extents);
  EXPECT_EQ(part.box, small.box);
  EXPECT_EQ(part.strides, (std::array<std::uint64_t, 4>{64, 640, 2560}));
  EXPECT_EQ(with_phase(apart, 0).strides, (std::array<std::uint64_t, 4>{160, 1600, 6400}));
  EXPECT_EQ(phase_offset(large, 0), 0u);
  EXPECT_EQ(phase_offset(large, 1), 32u);
  EXPECT_EQ(phase_offset(large, 2), 320u);
  EXPECT_EQ(phase_offset(apart, 3), 880u);
}

// The phases of an output of odd extents are not alike
TEST(TensorMaps, PhasesOfAnOddOutput) {
  const MapShape output{.rank = 4, .extents = {16, 5, 7, 2}, .strides = {32, 160, 1120}, .box = {16, 8, 2, 1}};
  for (const int phase : {0, 1, 2, 3}) {
    const MapShape part = with_phase(output, phase);
    EXPECT_EQ(part.extents, (std::array<std::uint64_t, 5>{16, phase % 2 == 0 ? 3u : 2u, phase < 2 ? 4u : 3u, 2}));
    EXPECT_EQ(part.strides, (std::array<std::uint64_t, 4>{64, 320, 1120}));
  }
}

// By phases the filter is loaded as it lies, 64 output channels of one tap at a time
TEST(TensorMaps, FilterOfATransposedConvolution) {
  ConvTranspose2d t{.n = 2, .h = 5, .w = 9, .c = 24, .k = 40, .r = 3, .s = 5, .stride = {2, 2}, .pad = {1, 2, 1, 2}};
  t.dtype_x = t.dtype_w = DType::bf16;
  const auto phases = sm90::by_phases(t);
  ASSERT_TRUE(phases);
  const plan::ConvTask& task = *phases;
  ConvPlan plan;
  plan.config = {.tile = {.m = 128, .n = 40}, .loader = HaloTile{.halo_h = 1, .halo_w = 2, .by_parity = true}};
  plan.images = 2, plan.rows = 9 * 17;
  const MapShapes m = map_shapes(task, plan);
  EXPECT_EQ(m.filter.extents, (std::array<std::uint64_t, 5>{40, 5, 3, 24}));
  EXPECT_EQ(m.filter.strides, (std::array<std::uint64_t, 4>{80, 400, 1200}));
  EXPECT_EQ(m.filter.box, (std::array<std::uint32_t, 5>{64, 1, 1, 64}));
  EXPECT_EQ(m.activation.box, (std::array<std::uint32_t, 5>{64, 10, 17, 1}));
  EXPECT_EQ(m.output.extents, (std::array<std::uint64_t, 5>{40, 17, 9, 2}));
}

// Boxes of what is upsampled are parts of image rows, or image rows
TEST(TensorMaps, LinesOfWhatIsUpsampled) {
  for (const auto& [width, pixels] : {std::pair{48, 16u}, {16, 16u}, {8, 8u}, {1, 1u}}) {
    const Conv2d conv{.n = 3, .h = 6, .w = width, .c = 24, .k = 40};
    ConvConfig config{.tile = {.m = 128, .n = 64}};
    config.features.resampling = {.only = true, .upsampled = true};
    for (const bool per_image : {false, true}) {
      const MapShape m = map_shapes(conv, plan_of(conv, config, per_image)).output;
      const auto across = static_cast<std::uint64_t>(width);
      EXPECT_EQ(m.extents, (std::array<std::uint64_t, 5>{40, across, per_image ? 6u : 18u, per_image ? 3u : 1u}));
      EXPECT_EQ(m.box, (std::array<std::uint32_t, 5>{64, pixels, 16 / pixels, 1}));
    }
  }
}

// Three products of A (k, m) and B (k, n), m 40, n 72, k 200
TEST(TensorMaps, OfProductsAreBoxesOf64Columns) {
  const Conv2d conv{.n = 3, .h = 1, .w = 40, .c = 200, .k = 72};
  ConvConfig config{.tile = {.m = 128, .n = 80, .k = 32},
                    .loader = Im2colTile{.box = Im2colTile::Box::columns},
                    .operands = {.columns_b = true}};
  config.operands.batched = true;
  MapShapes m = map_shapes(conv, plan_of(conv, config, true));
  EXPECT_FALSE(m.activation.im2col);
  EXPECT_EQ(m.activation.rank, 3);
  EXPECT_EQ(m.activation.extents, (std::array<std::uint64_t, 5>{40, 200, 3, 1}));
  EXPECT_EQ(m.activation.strides, (std::array<std::uint64_t, 4>{80, 80 * 200, 0}));
  EXPECT_EQ(m.activation.box, (std::array<std::uint32_t, 5>{64, 32, 1, 1}));
  EXPECT_EQ(m.activation.swizzle_bytes, 128);
  EXPECT_EQ(m.filter.extents, (std::array<std::uint64_t, 5>{72, 200, 3, 1}));
  EXPECT_EQ(m.filter.strides, (std::array<std::uint64_t, 4>{144, 144 * 200, 0}));
  EXPECT_EQ(m.filter.box, (std::array<std::uint32_t, 5>{64, 32, 1, 1}));
  EXPECT_EQ(m.filter.swizzle_bytes, 128);
  EXPECT_EQ(m.output.extents, (std::array<std::uint64_t, 5>{72, 40, 1, 3}));
  config.loader = Im2colTile{}, config.operands.columns_b = false;
  m = map_shapes(conv, plan_of(conv, config, true));
  EXPECT_TRUE(m.activation.im2col);
  EXPECT_EQ(m.activation.extents, (std::array<std::uint64_t, 5>{200, 40, 1, 3}));
  EXPECT_EQ(m.filter.extents, (std::array<std::uint64_t, 5>{200, 72, 3, 1}));
  EXPECT_EQ(m.filter.strides, (std::array<std::uint64_t, 4>{400, 400 * 72, 0}));
  EXPECT_EQ(m.filter.box, (std::array<std::uint32_t, 5>{32, 80, 1, 1}));
  EXPECT_EQ(m.filter.swizzle_bytes, 64);
}

// With steps of 128 elements, rows take two boxes of a swizzle's span, columns one of 128 rows
TEST(TensorMaps, OfStepsOf128) {
  Conv2d conv{.n = 2, .h = 9, .w = 12, .c = 200, .k = 40, .r = 3, .s = 5};
  ConvConfig config{.tile = {.m = 128, .n = 80, .k = 128}};
  MapShapes m = map_shapes(conv, plan_of(conv, config, false));
  EXPECT_EQ(m.activation.channels, 64u);
  EXPECT_EQ(m.activation.swizzle_bytes, 128);
  EXPECT_EQ(m.filter.box, (std::array<std::uint32_t, 5>{64, 1, 80, 1}));
  EXPECT_EQ(m.filter.swizzle_bytes, 128);
  config.loader = HaloTile{.halo_h = 2, .halo_w = 4};
  EXPECT_EQ(map_shapes(conv, plan_of(conv, config, true)).activation.box,
            (std::array<std::uint32_t, 5>{64, 12, 18, 1}));
  conv = {.n = 3, .h = 1, .w = 40, .c = 200, .k = 72};
  config = {.tile = {.m = 128, .n = 80, .k = 128},
            .loader = Im2colTile{.box = Im2colTile::Box::rows},
            .operands = {.batched = true}};
  m = map_shapes(conv, plan_of(conv, config, true));
  EXPECT_EQ(m.activation.box, (std::array<std::uint32_t, 5>{64, 128, 1, 1}));
  EXPECT_EQ(m.filter.box, (std::array<std::uint32_t, 5>{64, 80, 1, 1}));
  config.loader = Im2colTile{.box = Im2colTile::Box::columns}, config.operands.columns_b = true;
  m = map_shapes(conv, plan_of(conv, config, true));
  EXPECT_EQ(m.activation.box, (std::array<std::uint32_t, 5>{64, 128, 1, 1}));
  EXPECT_EQ(m.filter.box, (std::array<std::uint32_t, 5>{64, 128, 1, 1}));
  EXPECT_EQ(m.filter.swizzle_bytes, 128);
}

TEST(TensorMaps, OfF32HaveFourBytes) {
  const Conv2d conv{
      .n = 2, .h = 20, .w = 21, .c = 36, .k = 64, .r = 3, .s = 3, .dtype_x = DType::f32, .dtype_w = DType::f32};
  const MapShapes m =
      map_shapes(conv, plan_of(conv, {.element = DType::tf32, .tile = {.m = 128, .n = 64, .k = 32}}, false));
  EXPECT_EQ(m.activation.element_bytes, 4u);
  EXPECT_EQ(m.activation.strides, (std::array<std::uint64_t, 4>{144, 144 * 21, 144 * 21 * 20}));
  EXPECT_EQ(m.activation.channels, 32u);
  EXPECT_EQ(m.activation.swizzle_bytes, 128);
  EXPECT_EQ(m.filter.element_bytes, 4u);
  EXPECT_EQ(m.filter.strides, (std::array<std::uint64_t, 4>{144, 144 * 9, 0}));
  EXPECT_EQ(m.filter.swizzle_bytes, 128);
  EXPECT_EQ(m.output.element_bytes, 2u);
  EXPECT_EQ(with_pitch(m.activation, 40).strides[0], 160u);
}

TEST(TensorMaps, HaloTilesAreBoxesWithAHalo) {
  const Conv2d conv{
      .n = 3, .h = 20, .w = 21, .c = 64, .k = 64, .r = 3, .s = 3, .pad = {2, 2, 2, 2}, .dilation = {2, 2}};
  const MapShapes m = map_shapes(
      conv, plan_of(conv, {.tile = {.m = 256, .n = 64}, .loader = HaloTile{.halo_h = 4, .halo_w = 4}}, true));
  EXPECT_FALSE(m.activation.im2col);
  EXPECT_EQ(m.activation.box, (std::array<std::uint32_t, 5>{64, 8 + 4, 32 + 4, 1}));
  EXPECT_EQ(m.activation.swizzle_bytes, 128);
  EXPECT_EQ(m.output.extents, (std::array<std::uint64_t, 5>{64, 21, 20, 3}));
  EXPECT_EQ(m.output.strides, (std::array<std::uint64_t, 4>{128, 128 * 21, 128 * 21 * 20}));
  EXPECT_EQ(m.output.box, (std::array<std::uint32_t, 5>{64, 8, 2, 1}));
}

// Elements of a line by lines, from any element on; where pixels are multiples of 16 bytes, channels by pixels by
// lines.
TEST(TensorMaps, WindowsOfFewChannels) {
  Conv2d conv{.n = 3, .h = 20, .w = 24, .c = 3, .k = 64, .r = 7, .s = 7, .stride = {2, 2}, .pad = {3, 3, 3, 3}};
  const auto maps = [&] {
    ConvConfig c{.tile = {.m = 128, .n = 64}, .loader = ExplicitIm2col{.window = im2col_window_of(conv)}};
    return map_shapes(conv, plan_of(conv, c, true));
  };
  const MapShapes lines = maps();
  EXPECT_FALSE(lines.activation.im2col);
  EXPECT_EQ(lines.activation.rank, 3);
  EXPECT_EQ(lines.activation.extents, (std::array<std::uint64_t, 5>{72, 20, 3, 1}));
  EXPECT_EQ(lines.activation.strides, (std::array<std::uint64_t, 4>{144, 144 * 20, 0}));
  EXPECT_EQ(lines.activation.box, (std::array<std::uint32_t, 5>{72, 15 * 2 + 7, 1, 1}));
  EXPECT_EQ(lines.activation.swizzle_bytes, 0);
  EXPECT_EQ(lines.output.box, (std::array<std::uint32_t, 5>{64, 8, 2, 1}));
  conv.c = 16, conv.w = 21, conv.r = conv.s = 3;
  const MapShapes pixels = maps();
  EXPECT_EQ(pixels.activation.rank, 4);  // a line under a tile's pixels has more than 256 elements
  EXPECT_EQ(pixels.activation.extents, (std::array<std::uint64_t, 5>{16, 21, 20, 3}));
  EXPECT_EQ(pixels.activation.box, (std::array<std::uint32_t, 5>{16, 7 * 2 + 3, 15 * 2 + 3, 1}));
  EXPECT_EQ(pixels.activation.swizzle_bytes, 0);
  EXPECT_EQ(with_pitch(pixels.activation, 40).strides[0], 80u);
  conv.stride = {1, 1};
  const MapShapes dense = maps();
  EXPECT_EQ(dense.activation.rank, 3);
  EXPECT_EQ(dense.activation.extents, (std::array<std::uint64_t, 5>{16 * 21, 20, 3, 1}));
  EXPECT_EQ(dense.activation.box, (std::array<std::uint32_t, 5>{160, 18, 1, 1}));
}

// The corner of the filter walks over as many positions as the output has pixels, whatever the padding and stride.
TEST(TensorMaps, Im2colBoxHasTheOutputsPixels) {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  int seen = 0;
  while (seen < 500) {
    const Conv2d c{.n = 1,
                   .h = pick(1, 30),
                   .w = pick(1, 30),
                   .c = 8,
                   .k = 8,
                   .r = pick(1, 5),
                   .s = pick(1, 5),
                   .stride = {pick(1, 2), pick(1, 2)},
                   .pad = {pick(0, 3), pick(0, 3), pick(0, 3), pick(0, 3)},
                   .dilation = {pick(1, 2), pick(1, 2)}};
    if (c.h + c.pad[0] + c.pad[2] <= (c.r - 1) * c.dilation[0] ||
        c.w + c.pad[1] + c.pad[3] <= (c.s - 1) * c.dilation[1])
      continue;
    ++seen;
    const MapShape m = map_shapes(c, plan_of(c, {}, false)).activation;
    const auto positions = [](std::int64_t extent, int lower, int upper, std::uint32_t step) {
      return (extent + upper - lower + step - 1) / step;
    };
    const Extents e = extents(c);
    EXPECT_EQ(positions(c.w, m.lower[0], m.upper[0], m.steps[1]), e.width);
    EXPECT_EQ(positions(c.h, m.lower[1], m.upper[1], m.steps[2]), e.height);
  }
}

TEST(TensorMaps, SlicesDivideATile) {
  for (int n = 8; n <= 256; n += 8) EXPECT_EQ(n % slice_channels(n), 0) << n;
  EXPECT_EQ(slice_channels(128), 64);
  EXPECT_EQ(slice_channels(160), 32);
  EXPECT_EQ(slice_channels(80), 16);
  EXPECT_EQ(slice_channels(24), 8);
}

}  // namespace
}  // namespace unisono::families::sm90_conv
