#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "families/plain/generate.hpp"
#include "fixture.hpp"
#include "plan/moment_store.hpp"
#include "support/golden.hpp"
#include "support/sources.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {
namespace {

using testing::HasSubstr;

constexpr std::array cases{"bare",
                           "bias_silu",
                           "scaled_sigmoid",
                           "group_norm_mish",
                           "group_norm_silu_residual",
                           "instance_norm",
                           "temb_residual",
                           "scalars",
                           "attribute_values",
                           "casts",
                           "select_compare",
                           "user_function",
                           "statistics",
                           "two_results",
                           "raw_again",
                           "normalised_residual",
                           "layer_norm",
                           "softmax",
                           "summed_loss",
                           "rows",
                           "grouped",
                           "read_again",
                           "placed"};

std::string stem_of(const std::string& name) { return test::source_path("tests/golden/codegen/") + name; }

// The source for tests/golden/codegen/<name>.epi is <name>.cu. After a change that is meant, write them anew with
// UNISONO_WRITE_GOLDEN=1 test_codegen.
class GoldenSource : public testing::TestWithParam<const char*> {};

TEST_P(GoldenSource, IsAsRecorded) {
  const std::string stem = stem_of(GetParam());
  const std::string text = test::text_of(stem + ".epi");
  const std::string source = kernel_of(text).source;
  test::expect_golden(stem + ".cu", source);
  EXPECT_EQ(source, kernel_of(text).source) << "a second time";
}

// Nothing is left out: the kernels look for no member that a configuration may lack
TEST(Golden, AConfigurationHasEveryMember) {
  const std::string page = test::text_of(test::source_path("kernels/unisono/sm90/conv_config.cuh"));
  const std::string source = generate(epilogue_of("store acc as y : bf16"), families::sm90_conv::ConvConfig{}).source;
  const std::string config = source.substr(source.find("struct Config {"), source.find("\n};\n"));
  const std::regex line(R"(\n//   (?:using|int|bool|Norm|Stores) ((?:\w+, )*\w+))"), word(R"(\w+)");
  int members = 0;
  for (std::sregex_iterator l(page.begin(), page.end(), line), end; l != end; ++l) {
    const std::string names = (*l)[1];
    for (std::sregex_iterator w(names.begin(), names.end(), word); w != end; ++w, ++members)
      EXPECT_TRUE(std::regex_search(config, std::regex("\\b" + w->str() + " = "))) << w->str();
  }
  EXPECT_GE(members, 28);
}

// A product of A (k, m) and B (k, n), several at once: what a configuration says beside a convolution's
TEST(Golden, AProductNamesItsOperands) {
  families::sm90_conv::ConvConfig config;
  const plan::Epilogue epilogue = epilogue_of("store acc as y : bf16");
  EXPECT_THAT(generate(epilogue, config).source, HasSubstr("using Operands = Images;"));
  config.loader = families::sm90_conv::Im2colTile{.box = families::sm90_conv::Im2colTile::Box::columns},
  config.operands.batched = true;
  EXPECT_NE(generate(epilogue, config).source.find("using Operands = Matrices<true, false, true>;"), std::string::npos);
}

// Two products of one A: the second accumulator stands behind the operands [m,n]; what is recorded is a kernel of 128
// columns of each
TEST(Golden, ADualProductIsAsRecorded) {
  families::sm90_conv::ConvConfig config;
  config.schedule.order = families::sm90::Order::cooperative;
  config.loader = families::sm90_conv::Im2colTile{.box = families::sm90_conv::Im2colTile::Box::rows};
  config.operands.products = 2, config.features.fetch = 0;
  const plan::Epilogue epilogue = epilogue_of(
      "operand r[m,n] : bf16\nstore acc1 as up : bf16\n"
      "store silu(acc0 + bias[n]) * acc1 + r as y : bf16");
  const Kernel kernel = generate(epilogue, config);
  EXPECT_THAT(kernel.source, HasSubstr("using Operands = DualMatrices<false, false, false>;"));
  test::expect_golden(stem_of("dual") + ".cu", kernel.source);
  config.statistics = families::sm90_conv::GeneralReductions{};
  EXPECT_THAT(generate(epilogue_of("store acc0 as g : bf16\nstore acc1 as u : f32"), config).source,
              HasSubstr("= tensor[0];"));
}

// Two filters of one image, by halo tiles, and what comes of both normalised
TEST(Golden, ADualConvolutionIsAsRecorded) {
  families::sm90_conv::ConvConfig config;
  config.tile.n = 64;
  config.loader = families::sm90_conv::HaloTile{.halo_h = 2, .halo_w = 2};
  config.statistics = families::sm90_conv::ResidentStatistics{2};
  config.operands.products = 2, config.features.fetch = 0;
  const plan::Epilogue epilogue = epilogue_of(
      "x = sigmoid(acc0 + bias[n]) * acc1\nstore x as gated : bf16\nstore silu(group_norm(x, groups=32)) as y : bf16");
  const Kernel kernel = generate(epilogue, config);
  EXPECT_THAT(kernel.source, HasSubstr("using Operands = DualImages;"));
  test::expect_golden(stem_of("dual_convolution") + ".cu", kernel.source);
  config.loader = families::sm90_conv::Im2colTile{};
  EXPECT_THAT(generate(epilogue, config).source, HasSubstr("using Operands = DualImages;"));
}

// The forms that stand beside a general epilogue's own: a second pass that stores reductions of either side, and rows
// by one statistic, whose tiles meet
TEST(Golden, OtherFormsAreAsRecorded) {
  families::sm90_conv::ConvConfig config;
  config.tile.n = 64;
  config.features.store_buffers = 4;
  config.statistics = families::sm90_conv::StreamedStatistics{.unit = 16, .spill = DType::f32, .wide = true};
  const plan::Forms losses = forms_of(
      "h = acc + bias[n]\n"
      "y = group_norm(h, groups=4, scale=gamma[n])\n"
      "store silu(y) * w[m] as y : f32\n"
      "store mean(square(y - target[m,n])) as loss : f32\n"
      "store sum(h, over=m, per=b) as sums : f32\n");
  test::expect_golden(stem_of("streamed_losses") + ".cu", generate(losses.list.at(1), config).source);
  config = {};
  config.features.store_buffers = 2;
  config.statistics = families::sm90_conv::RowStatistics{.meets = true};
  const plan::Forms softmax = forms_of("store softmax(acc * 0.5 + bias[n], over=n) * gamma[n] as y : bf16");
  test::expect_golden(stem_of("softmax_rows") + ".cu", generate(softmax.list.at(1), config).source);
  const plan::Forms results = forms_of(
      "h = acc * w[m]\n"
      "y = softmax(h, over=n)\n"
      "store h : bf16\n"
      "store y : f32\n"
      "store y * gamma[n] as z : bf16\n");
  test::expect_golden(stem_of("row_results") + ".cu", generate(results.list.at(1), config).source);
}

TEST(Golden, AConfigurationNamesItsPhases) {
  families::sm90_conv::ConvConfig config;
  const plan::Epilogue epilogue = epilogue_of("store acc as y : bf16");
  EXPECT_EQ(generate(epilogue, config).source.find("Phases"), std::string::npos);
  config.loader = families::sm90_conv::HaloTile{.by_parity = true};
  EXPECT_NE(generate(epilogue, config).source.find("using Operands = Phases;"), std::string::npos);
}

TEST(Golden, AConfigurationNamesItsWindows) {
  families::sm90_conv::ConvConfig config;
  const plan::Epilogue epilogue = epilogue_of("store acc as y : bf16");
  EXPECT_EQ(generate(epilogue, config).source.find("Im2colSmem"), std::string::npos);
  config.loader = families::sm90_conv::ExplicitIm2col{
      .window = {.lines = 7, .taps = 5, .channels = 3, .stride_h = 2, .stride_w = 1, .dilation_h = 4, .pitch = 80},
      .stages = 3};
  EXPECT_NE(
      generate(epilogue, config)
          .source.find(
              "    struct Operands : Im2colSmem {\n"
              "        static constexpr int kLines = 7, kTaps = 5, kChannels = 3;\n"
              "        static constexpr int kStrideH = 2, kStrideW = 1, kDilationH = 4, kPitch = 80, kShift = 0;\n"
              "    };\n"),
      std::string::npos);
}

// What is made of the main store, and nothing where nothing is
TEST(Golden, AConfigurationNamesWhatItResamples) {
  families::sm90_conv::ConvConfig config;
  plan::Epilogue epilogue = epilogue_of("store acc as y : bf16");
  EXPECT_THAT(generate(epilogue, config).source, HasSubstr("using Resample = AsItIs;"));
  epilogue.resampled = {.pooled = "p", .upsampled = "e", .only_upsampled = true};
  EXPECT_THROW(generate(epilogue, config), InternalError);
  config.loader = families::sm90_conv::HaloTile{};
  config.features.resampling = plan::resampling_of(epilogue.resampled);
  EXPECT_NE(generate(epilogue, config).source.find("using Resample = Resampled<true, true, true>;"), std::string::npos);
}

// How many operands are fetched, and nothing where none is; never one that is not bound with 16 bits
TEST(Golden, AConfigurationNamesWhatItFetches) {
  families::sm90_conv::ConvConfig config;
  const plan::Epilogue declared = epilogue_of("operand r[m,n] : bf16\nstore acc + r as y : bf16"),
                       bound = epilogue_of("store acc + r[m,n] as y : bf16");
  config.features.fetch = 0;
  EXPECT_THAT(generate(declared, config).source, HasSubstr("kMoments = 0, kFetch = 0;"));
  config.features.fetch = 1;
  EXPECT_THAT(generate(declared, config).source, HasSubstr("kMoments = 0, kFetch = 1;"));
  EXPECT_THROW(generate(bound, config), InternalError);
  EXPECT_THROW(generate(bound, config, {.storage = {{"r", DType::bf16}}}), InternalError);
  config.features.fetch = 2;
  EXPECT_THROW(generate(declared, config), InternalError);
}

// Nothing of tiles; the lines of a strip are the launch's
TEST(Golden, ADepthwiseConvolutionIsAsRecorded) {
  const plan::Epilogue epilogue = epilogue_of("operand r[m,n] : bf16\nstore hardswish(acc + bias[n]) + r as y : bf16");
  families::sm90_depthwise::DepthwiseConfig config;
  config.tile_n = 64;
  config.strip = {.rows = 8, .pixels = 4, .channels = 4, .taps_h = 3, .taps_w = 3, .ctas = 3};
  const Kernel kernel = generate(epilogue, config);
  test::expect_golden(test::source_path("tests/golden/codegen/depthwise.cu"), kernel.source);
  config.strip.rows = 16;
  EXPECT_EQ(generate(epilogue, config).source, kernel.source);
}

// A configuration that names all there is, and nothing of extents
TEST(Golden, APlainKernelIsAsRecorded) {
  const plan::Epilogue epilogue =
      epilogue_of("operand r[m,n]\nstore silu(group_norm(acc + bias[n], groups=4, scale=gamma[n])) + r as y : bf16");
  using families::plain::Config;
  Config config{.image = DType::bf16, .filter = DType::tf32, .tiling = {}, .mode = Config::Mode::normalises};
  test::expect_golden(test::source_path("tests/golden/codegen/plain.cu"),
                      families::plain::generate(epilogue, config, {}).source);
  config.mode = Config::Mode::none;
  EXPECT_THROW(families::plain::generate(epilogue, config, {}), InternalError);
}

// Nor moments
TEST(Golden, AConfigurationNamesTheMomentsItStores) {
  families::sm90_conv::ConvConfig config;
  plan::Epilogue epilogue = epilogue_of("store acc as y : bf16");
  EXPECT_THAT(generate(epilogue, config).source, HasSubstr("kMoments = 0,"));
  ASSERT_FALSE(plan::store_moments(epilogue, {"moments", 6}, 96));
  EXPECT_THROW(generate(epilogue, config), InternalError);
  config.features.moments = 2;
  EXPECT_THAT(generate(epilogue, config).source, HasSubstr("kMoments = 2,"));
}

INSTANTIATE_TEST_SUITE_P(Codegen, GoldenSource, testing::ValuesIn(cases));

TEST(Golden, EveryFileIsACase) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(stem_of(""))) found.insert(entry.path().stem().string());
  std::set<std::string> expected(cases.begin(), cases.end());
  expected.insert({"depthwise", "dual", "dual_convolution", "plain", "streamed_losses", "softmax_rows", "row_results"});
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace unisono::codegen
