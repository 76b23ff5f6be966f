// The family by mma.sync: where it is chosen, what it serves, what it says of the rest, and its launches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "families/mma/family.hpp"
#include "families/mma/parameters.hpp"
#include "families/mma/plan.hpp"
#include "families/mma/problem.hpp"
#include "families/registry.hpp"
#include "plan/analyse.hpp"
#include "plan/resampling.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::families::mma {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class MmaFamily : public testing::Test {
 protected:
  MmaFamily() { on(8, 0, "A100", 108, 166912); }
  void on(int major, int minor, const char* name, int sms, std::size_t shared_bytes) {
    device.major = major, device.minor = minor, device.name = name, device.sms = sms;
    device.shared_bytes = shared_bytes;
  }
  plan::Forms forms(const std::string& text) const {
    return plan::analyse_forms(passes::run_pipeline(parse(text)), extents(contraction), families::tile_limits())
        .value();
  }
  std::string refused(const std::string& text = plan::test::bare) const {
    const plan::ConvTask task = plan::as_convolution(contraction);
    const plan::Forms f = forms(text);
    const auto refusal = family().can_implement({task, f, device});
    return refusal ? refusal->text() : "";
  }
  PlanPointer chosen(const std::string& text, const std::string& fixed = "") const {
    const plan::ConvTask task = plan::as_convolution(contraction);
    const plan::Forms f = forms(text);
    return choose({task, f, device}, parse_plan(fixed)).value();
  }
  std::string served_by(const std::string& text, const std::string& fixed = "") const {
    return std::string(chosen(text, fixed)->family->name());
  }
  const MmaPlan& own(const PlanPointer& plan) const { return dynamic_cast<const MmaPlan&>(*plan); }

  Contraction contraction = plan::test::conv_of(2, 20, 24, 64, 96, 3);
  Conv2d& conv() { return std::get<Conv2d>(contraction); }
  plan::Device device;
};

TEST_F(MmaFamily, IsChosenWhereThereAreTensorCoresButOnHopper) {
  for (const auto& [major, minor] : {std::pair(8, 0), {8, 6}, {8, 9}, {10, 0}, {10, 3}, {12, 0}}) {
    on(major, minor, "a chip", 80, 101376);
    for (const char* text : {plan::test::bare, plan::test::bias_silu, plan::test::block})
      EXPECT_EQ(served_by(text), "mma") << major << "." << minor << " " << text;
  }
  device = {};
  EXPECT_EQ(served_by(plan::test::block), "sm90_conv");
  EXPECT_EQ(served_by(plan::test::block, "family=mma"), "mma");
  on(7, 5, "Tesla T4", 40, 65536);
  EXPECT_EQ(served_by(plan::test::block), "plain");
  EXPECT_THAT(refused(), HasSubstr("device: Tesla T4 has compute capability 7.5; the kernels by mma.sync are for 8.0"));
}

TEST_F(MmaFamily, ReadsOperandsAsTheyLie) {
  const auto copies = [&](const Contraction& of) {
    const plan::ConvTask task = plan::as_convolution(of);
    return std::tuple(reads_pixels(task), image_of(task).columns, image_of(task).copy, filter_of(task).columns,
                      filter_of(task).copy);
  };
  EXPECT_EQ(copies(conv()), std::tuple(true, false, 16, false, 16));
  EXPECT_EQ(copies(plan::test::conv_of(1, 8, 8, 3, 8, 3)), std::tuple(true, false, 2, false, 2));
  EXPECT_EQ(copies(plan::test::conv_of(1, 8, 8, 12, 8, 1)), std::tuple(false, false, 8, false, 8));
  const DType bf16 = DType::bf16;
  EXPECT_EQ(copies(Gemm{.m = 20, .n = 16, .k = 3, .transpose_a = true, .dtype_a = bf16, .dtype_b = bf16}),
            std::tuple(false, true, 8, true, 16));
  EXPECT_EQ(copies(Gemm{.m = 20, .n = 16, .k = 6, .transpose_b = true, .dtype_a = bf16, .dtype_b = bf16}),
            std::tuple(false, false, 4, false, 4));
}

TEST_F(MmaFamily, LaunchesFit) {
  for (const auto& [sms, bytes] : {std::pair(108, 166912), {82, 101376}, {132, 232448}}) {
    on(8, 6, "a chip", sms, static_cast<std::size_t>(bytes));
    for (const char* text : {plan::test::bare, plan::test::block}) {
      const plan::ConvTask task = plan::as_convolution(contraction);
      const plan::Forms f = forms(text);
      const auto all = candidates({task, f, device}, parse_plan("family=mma")).value();
      std::set<std::string> names;
      for (const Candidate& c : all) {
        const MmaPlan& p = own(c.plan);
        EXPECT_TRUE(names.insert(to_string(override_of(p))).second);
        if (!c.is_legal()) continue;
        const Tiling& t = p.config.tiling;
        EXPECT_LE(p.shared_bytes, device.shared_bytes);
        EXPECT_LE(static_cast<std::size_t>(p.config.ctas_of_sm) * (p.shared_bytes + 1024), device.shared_bytes + 1024);
        EXPECT_EQ(p.tiles, p.images * ((p.rows + t.m - 1) / t.m) * ((96 + t.n - 1) / t.n));
        EXPECT_EQ(p.cooperative, p.config.parts > 1 || std::string(text) == plan::test::block);
        if (p.cooperative)
          EXPECT_LE(p.ctas, sms * p.config.ctas_of_sm);
        else
          EXPECT_EQ(p.ctas, p.tiles * p.config.parts);
      }
      EXPECT_GT(names.size(), 50u);
    }
  }
}

TEST_F(MmaFamily, RefusesWithReasons) {
  conv().dtype_w = DType::f16;
  EXPECT_THAT(refused(), HasSubstr("dtypes: the operands are bf16 and f16; mma.sync multiplies"));
  conv().dtype_w = DType::bf16, conv().layout = Layout::nchw;
  EXPECT_THAT(refused(), HasSubstr("layout: images NCHW"));
  conv().layout = Layout::nhwc, conv().groups = 32;
  EXPECT_THAT(refused(), HasSubstr("groups: 3 output channels each"));
  conv() = plan::test::conv_of(40000, 256, 256, 8, 8, 1);
  EXPECT_THAT(refused(), Says("size: … output pixels is 2621440000"));
  conv() = plan::test::conv_of(1, 40000, 8, 8, 8, 3);
  EXPECT_THAT(refused(), Says("size: … image … padding is 40002; at most 32767"));
  contraction = ConvTranspose2d{.h = 8, .w = 8, .c = 8, .k = 8, .r = 2, .s = 2, .stride = {2, 2}};
  EXPECT_THAT(refused(), HasSubstr("layout: an operand of f32 whose k"));
  contraction = ConvTranspose2d{
      .h = 2, .w = 2, .c = 8, .k = 8, .stride = {100, 50}, .dtype_x = DType::bf16, .dtype_w = DType::bf16};
  EXPECT_THAT(refused(), Says("size: … phases … is 5000"));
  contraction = Gemm{.m = 16, .n = 16, .k = 16, .transpose_a = true, .dtype_a = DType::f32, .dtype_b = DType::f32};
  EXPECT_THAT(refused(), HasSubstr("layout: an operand of f32 whose k"));
}

TEST_F(MmaFamily, TilesThatWaitAreResident) {
  conv() = plan::test::conv_of(1, 64, 64, 64, 96, 3);
  device.sms = 16;
  EXPECT_EQ(chosen(plan::test::block, "family=mma tile=256x96x32")->cooperative, true);
  EXPECT_THROW(chosen(plan::test::block, "family=mma tile=64x32 mode=resident"), Unsupported);
}

// A tile is of one phase, and each phase has the pixels of the largest
TEST_F(MmaFamily, TransposedConvolutionsRunByPhases) {
  ConvTranspose2d t{.n = 2,
                    .h = 9,
                    .w = 11,
                    .c = 24,
                    .k = 48,
                    .r = 3,
                    .s = 3,
                    .stride = {2, 3},
                    .pad = 1,
                    .dtype_x = DType::bf16,
                    .dtype_w = DType::bf16};
  const auto tiles = [&](const char* text) {
    contraction = t;
    return own(chosen(text, "family=mma tile=64x32x32")).tiles;
  };
  EXPECT_EQ(tiles(plan::test::bias_silu), 6 * 4 * 2);  // 17x31 pixels: 9x11 a phase of either image; two across
  const auto phases = [&] { return phases_of(plan::as_convolution(t)); };
  EXPECT_EQ(std::tuple(phases().count, phases().height, phases().width), std::tuple(6, 9, 11));
  EXPECT_EQ(std::tuple(phases().step, phases().back), std::tuple(Pair(2, 3), Pair(1)));
  t.dilation = 2;
  EXPECT_EQ(std::tuple(phases().step, phases().back), std::tuple(Pair(1, 3), Pair(1, 2)));
}

// The planes of a volume are one image; an extent of it has 16 bits, all of them together more
TEST_F(MmaFamily, VolumesAreImagesOfPlanes) {
  Conv3d v{.n = 1, .d = 500, .h = 100, .w = 8, .c = 16, .k = 32, .t = 3, .r = 3, .s = 3, .before = 1, .after = 1};
  v.dtype_x = v.dtype_w = DType::bf16;
  contraction = v;
  EXPECT_EQ(refused(), "");
  const MmaPlan p = own(chosen(plan::test::bias_silu, "family=mma tile=64x32x32"));
  EXPECT_TRUE(p.config.volumes && p.config.pixels);
  EXPECT_EQ(p.tiles, 500 * 100 * 8 / 64);
  const plan::ConvTask task = plan::as_convolution(contraction);
  EXPECT_EQ(std::pair(rows_ahead(task), rows_of_reach(task)), std::pair(std::int64_t{101}, std::int64_t{202}));
  EXPECT_EQ(std::pair(depth_of(task), image_of(task).copy), std::pair(std::int64_t{432}, 16));
  v.d = 40000, v.h = 8, contraction = v;
  EXPECT_THAT(refused(), Says("size: the planes … padding is 40002; at most 32767"));
}

// A thread has the sums of both products, and a stage the filters of both
TEST_F(MmaFamily, TwoProductsOfOneOperand) {
  EXPECT_TRUE(family().multiplies_two(device));
  Gemm g{.m = 512, .n = 256, .k = 128, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  const auto plan = [&](int products, const char* text) {
    g.products = products, contraction = g;
    return own(chosen(text, "family=mma tile=64x64x32 stages=3"));
  };
  const MmaPlan one = plan(1, plan::test::bias_silu), two = plan(2, "store silu(acc0) * acc1 as y : bf16");
  EXPECT_EQ(two.config.sums(), 2 * one.config.sums());
  EXPECT_EQ(two.shared_bytes, one.shared_bytes + std::size_t{3} * 64 * 32 * 2);
  EXPECT_GT(two.predicted_us, one.predicted_us);
  EXPECT_THROW(chosen("store silu(acc0) * acc1 as y : bf16", "family=mma tile=128x160x32 warps=4"), Unsupported);
}

// CTAs share tiles where these are few and their k is long, all in flight at once
TEST_F(MmaFamily, CtasShareTilesOfSmallOutputs) {
  contraction = plan::test::conv_of(2, 8, 8, 1280, 1280, 3);
  const PlanPointer plan = chosen(plan::test::bias_silu), whole = chosen(plan::test::bias_silu, "family=mma parts=1");
  const MmaPlan& shared = own(plan);
  EXPECT_GT(shared.config.parts, 1);
  EXPECT_LT(shared.predicted_us, whole->predicted_us);
  EXPECT_EQ(shared.ctas, shared.tiles * shared.config.parts);
  EXPECT_LE(shared.ctas, device.sms * shared.config.ctas_of_sm);
  EXPECT_TRUE(shared.cooperative);
  EXPECT_GE(shared.workspace_bytes, std::size_t{4} * 128 * 1280 * static_cast<std::size_t>(shared.config.parts - 1));
  EXPECT_GT(own(chosen(plan::test::block)).config.parts, 1);
  contraction = plan::test::conv_of(8, 64, 64, 320, 320, 3);
  EXPECT_EQ(own(chosen(plan::test::bias_silu)).config.parts, 1);
  EXPECT_THROW(chosen(plan::test::bias_silu, "family=mma parts=2"), Unsupported);
}

// Images whose values nothing tells apart are one, so that tiles run through the borders between them
TEST_F(MmaFamily, ImagesAreOneUnlessTheyDiffer) {
  EXPECT_EQ(own(chosen(plan::test::bias_silu)).images, 1);
  EXPECT_EQ(own(chosen(plan::test::block)).images, 2);
  contraction = Gemm{.batch = 3, .m = 16, .n = 16, .k = 16, .dtype_a = DType::f16, .dtype_b = DType::f16};
  EXPECT_EQ(own(chosen(plan::test::bare)).images, 3);
}

}  // namespace
}  // namespace unisono::families::mma
