// What CUTLASS's visitors cannot do is refused with a reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/cutlass_evt/family.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/families/cutlass_evt/problems.hpp"

namespace unisono::families::cutlass_evt {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refused(const Contraction& contraction, const std::string& text, const plan::Device& device = {}) {
  const plan::ConvTask task = plan::as_convolution(contraction);
  const auto refusal = family().can_implement({task, test::epilogue_of(text, contraction), device});
  return refusal ? refusal->text() : "";
}
std::string refused(const std::string& text) { return refused(test::product(), text); }

// Why there is no plan with these fields
std::string refused_plan(const std::string& text, const std::string& fields,
                         const Contraction& contraction = test::product()) {
  const plan::ConvTask task = plan::as_convolution(contraction);
  const auto chosen =
      choose({task, test::epilogue_of(text, contraction), plan::Device{}}, parse_plan("family=cutlass_evt " + fields));
  return chosen ? "" : chosen.refusal().told();
}

constexpr const char* bare = "store acc as y : bf16";

TEST(EvtRefusal, ServesWhatItSays) {
  EXPECT_EQ(refused(bare), "");
  EXPECT_EQ(refused("operand r[m,n] : f16\nstore clamp(acc + bias[n] + r, lower=0, upper=6) as y : f32"), "");
}

TEST(EvtRefusal, Architecture) {
  plan::Device other;
  other.major = 7, other.minor = 5;
  EXPECT_THAT(refused(test::product(), bare, other), HasSubstr("architecture: "));
  EXPECT_THAT(refused_plan(bare, "arch=sm100a"), AllOf(HasSubstr("architecture: arch=sm100a"), HasSubstr("sm_90")));
  EXPECT_EQ(refused_plan(bare, "arch=sm80"), "") << "portable code";
}

TEST(EvtRefusal, Alignment) {
  EXPECT_THAT(refused(test::product(512, 260), bare), AllOf(HasSubstr("alignment: rows of B"), HasSubstr("rows of D")));
  EXPECT_THAT(refused(test::product(512, 256, 100), bare), HasSubstr("alignment: rows of A are 100 elements of bf16"));
  EXPECT_THAT(refused(test::product(512, 264), "operand mask[m,n] : bool\nstore select(mask, acc, 0) as y : bf16"),
              HasSubstr("alignment: rows of mask"));
}

TEST(EvtRefusal, Layout) {
  Gemm g = test::product();
  g.dtype_a = g.dtype_b = DType::tf32;
  EXPECT_THAT(refused_plan(bare, "", g), HasSubstr("layout: tf32"));
  EXPECT_EQ(refused_plan(bare, "arch=sm80", g), "") << "mma.sync takes fragments of any layout";
  g.transpose_b = true;
  EXPECT_EQ(refused_plan(bare, "", g), "");
}

TEST(EvtRefusal, Contraction) {
  Conv2d conv = test::convolution();
  EXPECT_EQ(refused(conv, bare), "");
  conv.groups = 2;
  EXPECT_THAT(refused(conv, bare), HasSubstr("contraction: "));
  conv = test::convolution(), conv.layout = Layout::nchw;
  EXPECT_THAT(refused(conv, bare), HasSubstr("contraction: "));
  Gemm dual = test::product();
  dual.products = 2;
  constexpr const char* gated = "store silu(acc0) * acc1 as y : bf16";
  EXPECT_EQ(refused(dual, gated), "");
  EXPECT_EQ(refused_plan(gated, "", dual), "") << "by the kernel of sm80, which sm_90 runs";
  EXPECT_THAT(refused_plan(gated, "arch=sm90a", dual),
              HasSubstr("node: 'acc1': the visitors of CUTLASS 3.x read one accumulator"));
  EXPECT_THAT(refused_plan(gated, "tile=128x128", dual),
              Says("registers: two accumulators … tile of 128x128 are 256 of a thread"));
  EXPECT_EQ(refused_plan(gated, "tile=256x64", dual), "");
  EXPECT_THAT(refused(dual, "store silu(acc0) * acc1 * index(n) as y : bf16"), HasSubstr("node: "));
  const ConvTranspose2d strided{.n = 1,
                                .h = 16,
                                .w = 16,
                                .c = 64,
                                .k = 64,
                                .r = 3,
                                .s = 3,
                                .stride = 2,
                                .pad = 1,
                                .dtype_x = DType::bf16,
                                .dtype_w = DType::bf16};
  EXPECT_THAT(refused(strided, bare), HasSubstr("contraction: a transposed convolution"));
  ConvTranspose2d unit = strided;
  unit.stride = 1;
  EXPECT_EQ(refused_plan(bare, "", unit), "");
  EXPECT_THAT(refused_plan(bare, "arch=sm80", unit), HasSubstr("contraction: a transposed convolution"));
}

TEST(EvtRefusal, Convolutions) {
  Conv2d conv = test::convolution();
  conv.c = 36;
  EXPECT_THAT(refused(conv, bare), HasSubstr("alignment: rows of x are 36 elements of bf16"));
  conv = test::convolution(), conv.dtype_x = conv.dtype_w = DType::tf32;
  EXPECT_THAT(refused(conv, bare), HasSubstr("dtypes: "));
  conv = test::convolution();
  EXPECT_THAT(refused(conv, "store acc * gain[b,n] as y : bf16"), Says("layout: gain … each of 2"));
  EXPECT_EQ(refused_plan(bare, "", conv), "");
  EXPECT_EQ(refused_plan(bare, "arch=sm80", conv), "");
  EXPECT_THAT(refused_plan(bare, "order=cooperative", conv), HasSubstr("order: cooperative; on arch=sm90a"));
  EXPECT_THAT(refused_plan(bare, "cluster=2x1", conv), HasSubstr("cluster: 2x1"));
  EXPECT_THAT(refused_plan(bare, "order=warpspecialized"), HasSubstr("products have cooperative and pingpong"));
  EXPECT_THAT(refused_plan(bare, "tile=128x256", conv), HasSubstr("registers: "));
  conv.stride = 9;
  EXPECT_THAT(refused_plan(bare, "", conv), HasSubstr("layout: TMA's im2col"));
  EXPECT_EQ(refused_plan(bare, "arch=sm80", conv), "");
  conv = test::convolution(), conv.r = 33, conv.pad = 16;
  EXPECT_THAT(refused_plan(bare, "arch=sm80", conv), HasSubstr("layout: a filter of 33x3 taps"));
  EXPECT_EQ(refused_plan(bare, "", conv), "");
}

// Offsets into an image and its border are of 31 bits in CUTLASS 2.x
TEST(EvtRefusal, SizesOfConvolutions) {
  Conv2d conv = test::convolution();
  conv.n = 2000, conv.h = 1024, conv.w = 1024, conv.c = 8;
  EXPECT_THAT(refused_plan(bare, "arch=sm80", conv), HasSubstr("size: an operand"));
  conv.n = 1, conv.h = 16, conv.w = 4096, conv.c = 64, conv.pad = {20'000, 0, 0, 0}, conv.stride = {64, 64};
  EXPECT_THAT(refused_plan(bare, "arch=sm80", conv), HasSubstr("size: an operand, with the image's border"));
  conv.pad = {2'000, 0, 0, 0};
  EXPECT_EQ(refused_plan(bare, "arch=sm80", conv), "");
}

TEST(EvtRefusal, GradientsOfFilters) {
  FilterGradient2d g = test::gradient();
  const char* added = "operand c[m,n] : f32\nstore alpha[] * acc + beta[] * c as y : f32";
  EXPECT_EQ(refused_plan(added, "", g), "");
  EXPECT_EQ(refused_plan("store acc * gain[n] + shift[m] as y : bf16\nstore sum(acc, over=m) as s : f32", "", g), "");
  EXPECT_THAT(refused_plan(bare, "arch=sm80", g), HasSubstr("contraction: a gradient of filters"));
  EXPECT_THAT(refused_plan(bare, "tile=128x128", g), HasSubstr("tile: 128 columns; a gradient of filters"));
  EXPECT_THAT(refused_plan(bare, "order=cooperative", g), HasSubstr("order: cooperative"));
  EXPECT_THAT(refused(g, "store softmax(acc) as y : bf16"), HasSubstr("reduction: "));
  g.c = 40;  // no tile's columns
  EXPECT_THAT(refused_plan(bare, "", g), HasSubstr("a divisor of the 40 channels"));
  g = test::gradient(), g.k = 70;
  EXPECT_THAT(refused(g, bare), HasSubstr("alignment: rows of dY are 70 elements of bf16"));
  g = test::gradient(), g.c = 36;
  EXPECT_THAT(refused(g, bare), HasSubstr("alignment: rows of x are 36 elements of bf16"));
  g = test::gradient(), g.dtype_x = g.dtype_y = DType::tf32;
  EXPECT_THAT(refused(g, bare), HasSubstr("dtypes: "));
  g = test::gradient(), g.stride = 9;
  EXPECT_THAT(refused_plan(bare, "", g), HasSubstr("layout: TMA's im2col"));
}

TEST(EvtRefusal, GroupedProducts) {
  EXPECT_EQ(
      refused_plan("operand c[m,n] : f32\nstore relu(acc * s[] + c + v[n] + u[m]) as y : bf16", "", test::grouped()),
      "");
  EXPECT_EQ(refused_plan(bare, "order=pingpong tile=64x128", test::grouped({1, 1})), "");
  EXPECT_THAT(refused_plan(bare, "arch=sm80", test::grouped()), HasSubstr("contraction: a grouped product"));
  const auto node = HasSubstr("node: ");
  EXPECT_THAT(refused_plan("store acc as y : bf16\nstore relu(acc) as z : bf16", "", test::grouped()), node);
  EXPECT_THAT(
      refused_plan("operand r[m,n] : bf16\noperand t[m,n] : bf16\nstore acc + r * t as y : bf16", "", test::grouped()),
      node);
  EXPECT_THAT(refused_plan("store acc as y : bf16\nstore sum(acc, over=m) as s : f32", "", test::grouped()), node);
  EXPECT_THAT(refused(test::grouped(), "store acc + u[b,n] as y : bf16"), HasSubstr("layout: u has an axis b"));
  EXPECT_THAT(refused(test::grouped(), "store acc * t[b] as y : bf16"), HasSubstr("has an axis b"));
  EXPECT_THAT(refused(test::grouped(std::vector<std::int64_t>(257, 3)), bare), HasSubstr("size: 257 groups"));
  EXPECT_EQ(refused(test::grouped(std::vector<std::int64_t>(256, 3)), bare), "");
  Gemm words = test::grouped();
  words.dtype_a = words.dtype_b = DType::tf32, words.transpose_b = true;
  EXPECT_THAT(refused(words, bare), HasSubstr("dtypes: "));
}

// By our own kernels, with what would serve them
TEST(EvtRefusal, OthersSayWhoServesRareContractions) {
  for (const Contraction& contraction : {Contraction(test::gradient()), Contraction(test::grouped())}) {
    const plan::ConvTask task = plan::as_convolution(contraction);
    const auto epilogue = test::epilogue_of(bare, contraction);
    for (const Family* family : registry())
      if (family->name() != "cutlass_evt") {
        const auto refusal = family->can_implement({task, epilogue, plan::Device{}});
        ASSERT_TRUE(refusal) << family->name();
        if (refusal->scope == Refusal::Scope::foreign) continue;
        EXPECT_THAT(refusal->text(), HasSubstr("plan=family=cutlass_evt")) << family->name();
      }
    EXPECT_FALSE(choose({task, epilogue, plan::Device{}}, {}));
  }
}

TEST(EvtRefusal, Nodes) {
  EXPECT_THAT(refused("store acc + index(m) as y : bf16"), HasSubstr("node: "));
  EXPECT_THAT(refused("operand label[m] : i32\nstore one_hot(label) - acc as y : bf16"), HasSubstr("node: "));
  EXPECT_THAT(refused("store acc as y : bf16\nstore acc > 0 as sign : bool"),
              HasSubstr("CUTLASS stores f32, bf16 and f16"));
}

// The reason says what to do, and that helps: for every architecture
TEST(EvtRefusal, ALossAlone) {
  const std::string loss = "store mean(acc * acc, over=(m,n)) as loss : f32";
  for (const char* arch : {"sm90a", "sm80", "sm100a", "sm120"}) {
    plan::Device device;
    device.major = arch == std::string("sm100a") ? 10 : arch == std::string("sm120") ? 12 : device.major;
    const plan::ConvTask task = plan::as_convolution(test::product());
    const auto planned = [&](const std::string& text, const std::string& fields) {
      const auto chosen = choose({task, test::epilogue_of(text, test::product()), device}, parse_plan(fields));
      return chosen ? std::string((*chosen)->family->name()) : chosen.refusal().told();
    };
    const std::string fields = std::string("family=cutlass_evt reductions=atomic arch=") + arch;
    EXPECT_THAT(planned(loss, fields), AllOf(HasSubstr("stores no value [m,n]"), HasSubstr("store acc as y : bf16"),
                                             HasSubstr("leave out family=cutlass_evt")));
    EXPECT_EQ(planned(loss + "\nstore acc as y : bf16", fields), "cutlass_evt");
    if (device.major == 9) {
      EXPECT_THAT(planned(loss, ""), testing::AnyOf("sm90_conv", "plain"));
    }
  }
}

TEST(EvtRefusal, ReductionsThatAreRead) {
  EXPECT_THAT(refused("store softmax(acc) as y : bf16"),
              AllOf(HasSubstr("reduction: "), HasSubstr("when the launch ends")));
  EXPECT_THAT(refused("store acc as y : bf16\nstore sqrt(sum_squares(acc, over=m)) as norm : f32"),
              HasSubstr("reduction: "));
}

TEST(EvtRefusal, AtomicReductionsUnlessAskedFor) {
  const char* loss = "store acc as y : bf16\nstore sum(acc, over=(m,n)) as loss : f32";
  EXPECT_THAT(refused_plan(loss, ""), AllOf(HasSubstr("reduction: "), HasSubstr("reductions=atomic")));
  EXPECT_EQ(refused_plan(loss, "reductions=atomic"), "");
}

TEST(EvtRefusal, ReductionsOfSm80UnlessAskedFor) {
  const char* vectors = "store acc as y : bf16\nstore sum(acc, over=m) as s : f32\nstore max(acc, over=n) as t : f32";
  EXPECT_EQ(refused_plan(vectors, ""), "");
  EXPECT_THAT(refused_plan(vectors, "arch=sm80"), AllOf(HasSubstr("reduction: "), HasSubstr("reductions=atomic")));
  EXPECT_EQ(refused_plan(vectors, "arch=sm80 reductions=atomic"), "");
  EXPECT_THAT(refused_plan("store acc as y : bf16\nstore sum(acc, over=m) as s : bf16", "arch=sm80 reductions=atomic"),
              HasSubstr("atomic operations is f32"));
}

TEST(EvtRefusal, PlansOfSm80) {
  EXPECT_THAT(refused_plan(bare, "arch=sm80 tile=96x128"), HasSubstr("64, 128 or 256 rows and columns"));
  EXPECT_THAT(refused_plan(bare, "arch=sm80 tile=256x256"), HasSubstr("registers: a tile of 256x256"));
  EXPECT_THAT(refused_plan(bare, "arch=sm80 depth=128"), HasSubstr("depth: 128"));
  Gemm words = test::product();
  words.dtype_a = words.dtype_b = DType::tf32;
  EXPECT_THAT(refused_plan(bare, "arch=sm80 depth=64", words), HasSubstr("depth: 64 elements of tf32 are 256 bytes"));
  EXPECT_EQ(refused_plan(bare, "arch=sm80 depth=32", words), "");
  EXPECT_THAT(refused_plan(bare, "arch=sm80 stages=2"), HasSubstr("stages: 2"));
  EXPECT_THAT(refused_plan(bare, "arch=sm80 tile=128x256 stages=10"), HasSubstr("shared memory: 10 stages"));
  for (const char* field : {"cluster=1x1", "order=pingpong", "raster=rows", "subtile=64x32"})
    EXPECT_THAT(refused_plan(bare, std::string("arch=sm80 ") + field), HasSubstr("kernels of CUTLASS 2.x (arch=sm80)"));
  EXPECT_THAT(refused_plan(bare, "arch=sm80", test::product(64, 64, 64, 70000)), HasSubstr("size: "));
}

TEST(EvtRefusal, Plans) {
  EXPECT_THAT(refused_plan(bare, "tile=256x256"), HasSubstr("registers: a tile of 256x256"));
  EXPECT_THAT(refused_plan(bare, "tile=64x128 order=cooperative"), HasSubstr("cooperative warpgroups"));
  EXPECT_THAT(refused_plan(bare, "tile=128x256 stages=8"), HasSubstr("shared memory: 8 stages"));
  EXPECT_THAT(refused_plan(bare, "subtile=48x32"), HasSubstr("subtile: 48x32"));
  EXPECT_THAT(refused_plan(bare, "order=cooperative subtile=64x32"), HasSubstr("expected 128 rows"));
  EXPECT_EQ(refused_plan(bare, "order=cooperative tile=128x128 subtile=128x64"), "");
}

}  // namespace
}  // namespace unisono::families::cutlass_evt
