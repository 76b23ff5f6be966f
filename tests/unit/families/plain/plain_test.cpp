// The family that every architecture has: what it serves, what it says of the rest, and that others go ahead of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/plain/cost.hpp"
#include "families/plain/family.hpp"
#include "families/plain/parameters.hpp"
#include "families/plain/problem.hpp"
#include "families/registry.hpp"
#include "plan/analyse.hpp"
#include "plan/moment_store.hpp"
#include "plan/resampling.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::families::plain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlainFamily : public testing::Test {
 protected:
  plan::Epilogue epilogue(const std::string& text) const {
    return plan::analyse(passes::run_pipeline(parse(text)), extents(contraction), families::tile_limits()).value();
  }
  /// Its reasons; empty: served.
  std::string refused(const plan::Epilogue& e) const {
    const plan::ConvTask task = plan::as_convolution(contraction);
    const auto refusal = family().can_implement({task, e, device});
    return refusal ? refusal->text() : "";
  }
  std::string refused(const std::string& text = plan::test::bare) const { return refused(epilogue(text)); }
  /// The first plan that the registry gives.
  PlanPointer chosen(const std::string& text, const std::string& fixed = "") const {
    const plan::ConvTask task = plan::as_convolution(contraction);
    return choose({task, epilogue(text), device}, parse_plan(fixed)).value();
  }
  std::string served_by(const std::string& text, const std::string& fixed = "") const {
    return std::string(chosen(text, fixed)->family->name());
  }
  std::string explained(const std::string& text) const {
    const plan::ConvTask task = plan::as_convolution(contraction);
    return explain({task, epilogue(text), device});
  }
  void on(int major, int minor, const char* name) { device.major = major, device.minor = minor, device.name = name; }

  Contraction contraction = plan::test::conv_of(2, 20, 24, 64, 96, 3);
  Conv2d& conv() { return std::get<Conv2d>(contraction); }
  plan::Device device;
};

TEST_F(PlainFamily, IsTheLast) {
  EXPECT_EQ(registry().back(), &family());
  EXPECT_EQ(served_by(plan::test::block), "sm90_conv");
  EXPECT_EQ(served_by(plan::test::block, "family=plain"), "plain");
}

TEST_F(PlainFamily, ServesEveryArchitectureFromTuringOn) {
  for (const auto& [major, minor] : {std::pair(7, 5), {8, 0}, {8, 6}, {8, 9}, {10, 0}, {12, 0}}) {
    on(major, minor, "another chip");
    for (const char* text : {plan::test::bare, plan::test::bias_silu, plan::test::block}) {
      EXPECT_EQ(served_by(text, "family=plain"), "plain") << major << "." << minor << " " << text;
      EXPECT_GT(chosen(text, "family=plain")->predicted_us, 3);
      EXPECT_EQ(served_by(text), major == 7 ? "plain" : "mma");
    }
  }
  on(7, 0, "Tesla V100");
  EXPECT_THAT(refused(), Says("device: Tesla V100 … 7.0; the plain kernels … 7.5"));
}

TEST_F(PlainFamily, ServesEveryContraction) {
  on(7, 5, "Tesla T4");
  const std::vector<Contraction> all{
      Conv2d{.n = 3,
             .h = 15,
             .w = 9,
             .c = 6,
             .k = 9,
             .r = 2,
             .s = 5,
             .stride = {3, 2},
             .pad = {1, 0, 4, 2},
             .dilation = {2, 1},
             .groups = 3,
             .layout = Layout::nchw,
             .dtype_x = DType::f16,
             .dtype_w = DType::f32},
      ConvTranspose2d{.n = 2,
                      .h = 5,
                      .w = 6,
                      .c = 7,
                      .k = 3,
                      .r = 3,
                      .s = 3,
                      .stride = {3, 1},
                      .pad = {1, 1, 0, 0},
                      .dtype_x = DType::bf16,
                      .dtype_w = DType::bf16},
      Gemm{.batch = 3, .m = 17, .n = 1, .k = 1, .transpose_a = true, .dtype_a = DType::f32, .dtype_b = DType::bf16}};
  for (const Contraction& c : all) {
    contraction = c;
    for (const char* text : {plan::test::bare, "store acc > 0 as y : bool\nstore index(m) + s[m] as r : f32",
                             "store group_norm(acc, groups=1) as y : bf16", "store layer_norm(acc) as y : f16"})
      EXPECT_EQ(served_by(text), "plain") << to_string(c) << "\n" << text;
  }
}

// What Hopper's kernels refuse is served, and said to be
TEST_F(PlainFamily, IsNamedWhereItServesOnHopper) {
  conv().dtype_w = DType::f16;
  EXPECT_EQ(served_by(plan::test::bias_silu), "plain");
  const std::string text = explained(plan::test::bias_silu);
  EXPECT_THAT(text, AllOf(HasSubstr("plan: plain "), HasSubstr("bf16 by f16 without tensor cores"),
                          HasSubstr("family: plain, the last of all"), HasSubstr("tensor cores would take"),
                          HasSubstr("dtypes: the operands are bf16 and f16; the kernels multiply")));
  const plan::ConvTask task = plan::as_convolution(contraction);
  const plan::Epilogue e = epilogue(plan::test::bias_silu);
  EXPECT_GT(chosen(plan::test::bias_silu)->predicted_us, tensor_core_us({task, e, device}));
}

// Who fixes a tile means the tensor cores' and hears why there is none
TEST_F(PlainFamily, IsNotReachedByFieldsAlone) {
  conv().dtype_w = DType::f16;
  for (const char* fixed : {"tile=64x64", "mode=none", "stages=4"}) {
    try {
      served_by(plan::test::bare, fixed);
      ADD_FAILURE() << fixed << " was served";
    } catch (const Unsupported& error) {
      EXPECT_THAT(error.what(), HasSubstr("dtypes: the operands are bf16 and f16"));
    }
  }
  EXPECT_EQ(served_by(plan::test::bare, "family=plain tile=64x64"), "plain");
  EXPECT_THROW(served_by(plan::test::bare, "family=plain stages=4"), Unsupported);
}

TEST_F(PlainFamily, RefusesWithReasons) {
  conv().dtype_x = DType::f64;
  EXPECT_THAT(refused(),
              AllOf(HasSubstr("dtypes: the operands are f64 and bf16"), HasSubstr("any of bf16, f16 and f32")));
  conv().dtype_x = DType::bf16;
  for (const char* text : {"store softmax(acc, over=n) as y : bf16", "store sum(acc, over=m) as s : f32",
                           "h = group_norm(acc, groups=4)\nstore h as y : bf16\nstore max(h, over=(m,n)) as top : f32"})
    EXPECT_THAT(refused(text),
                AllOf(HasSubstr("epilogue: reductions whose results"), HasSubstr("Family plain serves values")))
        << text;
  plan::Epilogue made = epilogue(plan::test::bare);
  plan::test::require(plan::resample(made, {.pooled = "small"}, contraction));
  EXPECT_THAT(refused(made), HasSubstr("epilogue: pooled or upsampled stores"));
  made = epilogue(plan::test::bare);
  plan::test::require(plan::store_moments(made, {"moments", 8}, 96));
  EXPECT_THAT(refused(made), HasSubstr("epilogue: stored statistics"));
}

TEST_F(PlainFamily, RefusesSizesThatItCannotCount) {
  conv() = plan::test::conv_of(40000, 256, 256, 8, 8, 1);
  EXPECT_THAT(refused(), Says("size: … output pixels is 2621440000"));
  conv() = plan::test::conv_of(1, 8, 8, 8, 8, 1);
  conv().stride = {1 << 24, 1}, conv().pad.top = 1 << 30;
  EXPECT_THAT(refused(), HasSubstr("size: the padding is 1073741824"));
}

// Tiles that cover the output once, and memory that every architecture has
TEST_F(PlainFamily, LaunchesFit) {
  device.sms = 10;
  for (const std::int64_t groups : {1, 2, 32})
    for (const char* text : {plan::test::bare, plan::test::block}) {
      conv().groups = groups;
      const plan::ConvTask task = plan::as_convolution(contraction);
      const plan::Epilogue e = epilogue(text);
      const auto all = plans({task, e, device});
      EXPECT_EQ(all.size(), 7u);
      for (const PlainPlan& p : all) {
        const Tiling& t = p.config.tiling;
        const std::int64_t width = t.direct ? 96 : 96 / groups, across = t.direct ? 1 : groups;
        EXPECT_EQ(p.tiles, (960 + t.tile_m - 1) / t.tile_m * ((width + t.tile_n - 1) / t.tile_n) * across);
        EXPECT_LE(p.shared_bytes, 48u * 1024);
        EXPECT_EQ(p.cooperative, e.norm() != nullptr);
        EXPECT_EQ(p.ctas, p.cooperative ? device.sms : p.tiles);
        EXPECT_EQ(p.workspace_bytes, e.norm() ? 256 + 512 + 960 * 96 * 4u : 0u);
      }
      EXPECT_TRUE(std::ranges::is_sorted(all, {}, &PlainPlan::predicted_us));
    }
}

TEST_F(PlainFamily, PlansAreNamedByTheirFields) {
  const plan::ConvTask task = plan::as_convolution(contraction);
  const plan::Epilogue e = epilogue(plan::test::block);
  std::set<std::string> texts;
  for (const Candidate& c : candidates({task, e, device}, parse_plan("family=plain")).value()) {
    const std::string text = to_string(override_of(*c.plan));
    EXPECT_TRUE(texts.insert(text).second) << text;
    EXPECT_EQ(to_string(override_of(*choose({task, e, device}, parse_plan(text)).value())), text);
  }
  EXPECT_EQ(texts.size(), 7u);
}

// The element that a row, a tap and a channel mean is where the public descriptions say
TEST_F(PlainFamily, StepsAreThoseOfTheLayouts) {
  contraction =
      Gemm{.batch = 2, .m = 5, .n = 7, .k = 3, .transpose_a = true, .dtype_a = DType::f32, .dtype_b = DType::f32};
  PlainConvGeometry g = geometry(plan::as_convolution(contraction), PlainPlan{});
  EXPECT_EQ(std::tuple(g.image_n, g.image_w, g.image_c), std::tuple(15, 1, 5));
  EXPECT_EQ(std::tuple(g.filter_n, g.filter_output, g.filter_channel), std::tuple(21, 1, 7));
  EXPECT_EQ(std::tuple(g.range_rows, g.rows, g.width, g.in_width), std::tuple(5, 5, 5, 5));
  contraction = Conv2d{.h = 9, .w = 8, .c = 6, .k = 4, .r = 3, .s = 2, .groups = 2, .layout = Layout::nchw};
  g = geometry(plan::as_convolution(contraction), PlainPlan{});
  EXPECT_EQ(std::tuple(g.image_n, g.image_c, g.image_h, g.image_w), std::tuple(432, 72, 8, 1));
  EXPECT_EQ(std::tuple(g.filter_group, g.filter_output, g.filter_tap, g.filter_channel), std::tuple(36, 18, 1, 6));
  contraction = ConvTranspose2d{.h = 9, .w = 8, .c = 6, .k = 4, .r = 3, .s = 2, .groups = 2};
  g = geometry(plan::as_convolution(contraction), PlainPlan{});
  EXPECT_EQ(std::tuple(g.filter_group, g.filter_output, g.filter_tap, g.filter_channel), std::tuple(36, 1, 2, 12));
}

}  // namespace
}  // namespace unisono::families::plain
