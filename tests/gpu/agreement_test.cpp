// Every element against the float64 reference.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "gpu/judges.hpp"
#include "gpu/kernels.hpp"
#include "gpu/moments.hpp"
#include "gpu/options.hpp"
#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

void expect_agreement(const std::vector<Case>& cases) {
  Judges judges;
  for (const Case& c : cases) {
    std::string problems;
    try {
      Testbed testbed(c);
      const Executable executable = testbed.compile();
      Outcome outcome = testbed.run(executable, problems);
      judges.take(std::move(outcome), problems, c.describe() + "\n" + executable.describe());
    } catch (const Unsupported& error) {
      ADD_FAILURE() << c.describe() << "\n" << error.what();
    }
  }
  for (const std::string& text : judges.finish()) ADD_FAILURE() << text;
}

namespace {

TEST(Agreement, RandomShapesGroupsEpiloguesAndPlans) {
  const auto cases = random_cases(options().seed, options().families, 8);
  std::printf("%zu random problems, seed %llu\n", cases.size(), static_cast<unsigned long long>(options().seed));
  EXPECT_GE(cases.size(), static_cast<std::size_t>(options().families) * 75 / 10);
  expect_agreement(cases);
}

TEST(Agreement, EveryOperation) { expect_agreement(operation_cases()); }

TEST(Agreement, EveryKindOfOperandAndStore) { expect_agreement(operand_cases()); }

TEST(Agreement, OverTheChannelsOfAPixel) {
  const auto cases = pixel_cases();
  EXPECT_GE(cases.size(), 120u);
  expect_agreement(cases);
}

TEST(Agreement, Products) {
  const auto cases = product_cases(options().seed);
  EXPECT_EQ(cases.size(), 53u);
  expect_agreement(cases);
}

// And bitwise the same each time, on moments that were poisoned
TEST(Agreement, MomentsOfWhatIsStored) {
  const auto cases = moment_cases(options().seed);
  EXPECT_GE(cases.size(), 60u);
  expect_agreement(cases);
}

// Every element of what is made of a store is one of its elements
TEST(Agreement, PooledAndUpsampled) {
  const auto cases = resampled_cases(options().seed);
  EXPECT_EQ(cases.size(), 96u);
  expect_agreement(cases);
}

// Operands that arrive in the buffers which the result leaves from
TEST(Agreement, FetchedOperands) {
  const auto cases = fetched_cases(options().seed);
  EXPECT_GE(cases.size(), 100u);
  expect_agreement(cases);
}

TEST(Agreement, StationaryFilters) {
  const auto cases = stationary_cases(options().seed);
  EXPECT_EQ(cases.size(), 72u);
  expect_agreement(cases);
}

TEST(Agreement, SecondPass) {
  const auto cases = second_pass_cases(options().seed);
  EXPECT_EQ(cases.size(), 110u);
  expect_agreement(cases);
}

TEST(Agreement, RowsOverSeveralTiles) {
  const auto cases = row_cases(options().seed);
  EXPECT_EQ(cases.size(), 96u);
  expect_agreement(cases);
}

TEST(Agreement, TilesOfSeveralGroups) {
  const auto cases = group_cases(options().seed);
  EXPECT_EQ(cases.size(), 72u);
  expect_agreement(cases);
}

// A small problem of each mode, which compute-sanitizer also sees
TEST(Agreement, SmallProblemsOfEachMode) {
  if (device().device.name == "emulated GPU") GTEST_SKIP() << "--sanitizer runs them there";
  expect_agreement(sanitizer_cases());
}

// Operands that are repeated, strided or not bound, strided stores, rounding
TEST(Agreement, PlacedOperandsAndStores) {
  const auto cases = placed_cases(options().seed);
  EXPECT_GE(cases.size(), 180u);
  expect_agreement(cases);
}

// The matrices of a, or b, with gaps of NaN between them
std::vector<std::byte> with_gaps(const Tensor& t, std::int64_t step) {
  const auto count = static_cast<std::size_t>(t.shape[0]), each = t.host.size() / count;
  std::vector<std::byte> apart(count * static_cast<std::size_t>(step) * 2, std::byte{0xff});
  for (std::size_t i = 0; i < count; ++i)
    std::copy_n(t.host.begin() + static_cast<std::ptrdiff_t>(i * each), each,
                apart.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(step) * 2));
  return apart;
}

TEST(Agreement, MatricesOfABatchApart) {
  int tested = 0;
  auto cases = product_cases(options().seed);
  for (const Case& c : gathered_cases(options().seed)) cases.push_back(c);
  for (const Case& c : cases) {
    const bool gathered = c.name.starts_with("gathered");
    if (!c.product || c.product->batch == 1 || tested >= (gathered ? 16 : 10)) continue;
    SCOPED_TRACE(c.describe());
    Testbed testbed(c);
    const Executable executable = testbed.compile();
    Arguments arguments = testbed.arguments();
    testbed.poison(nullptr);
    executable.run(arguments);
    const auto dense = testbed.outputs();
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (const auto& [name, view] : {std::pair("(a)", &arguments.left), std::pair("(b)", &arguments.right)}) {
      const Tensor& t = testbed.tensor(name);
      const std::int64_t step = (t.shape[1] * t.shape[2] + 7) / 8 * 8 + 8 * (1 + tested % 5);
      const auto bytes = with_gaps(t, step);
      buffers.push_back(std::make_unique<Buffer>(bytes.size()));
      buffers.back()->upload(bytes.data());
      *view = {buffers.back()->data(), t.dtype, t.shape, {step, t.shape[2], 1}};
    }
    testbed.poison(nullptr);
    executable.run(arguments);
    EXPECT_EQ(testbed.outputs(), dense);
    ++tested;
  }
  EXPECT_EQ(tested, 16);
}

TEST(Agreement, WhatTmaCannotLoad) {
  const auto cases = gathered_cases(options().seed);
  EXPECT_GE(cases.size(), 100u);
  expect_agreement(cases);
}

// Converted by the launch, or multiplied as planes; stored as planes
TEST(Agreement, ChannelsFirst) {
  const auto cases = planes_cases(options().seed);
  EXPECT_GE(cases.size(), 180u);
  expect_agreement(cases);
}

// Bitwise the same each time, too
TEST(Agreement, ImagesOfFewChannels) {
  const auto cases = im2col_smem_cases(options().seed);
  EXPECT_GE(cases.size(), 165u);
  expect_agreement(cases);
}

// On any architecture, by ordinary multiplications
TEST(Agreement, Plain) {
  const auto cases = plain_cases(options().seed);
  EXPECT_EQ(cases.size(), 168u);
  expect_agreement(cases);
}

TEST(Agreement, Depthwise) {
  const auto cases = depthwise_cases(options().seed);
  EXPECT_EQ(cases.size(), 96u);
  std::size_t unrolled = 0;
  for (const Case& c : cases) {
    const lower::Lowered lowered = kernel_of(c, device().device);
    const auto* plan = dynamic_cast<const families::sm90_depthwise::DepthwisePlan*>(&lowered.plan());
    ASSERT_NE(plan, nullptr) << c.describe();
    unrolled += plan->config.strip.taps_h > 0;
  }
  EXPECT_GE(unrolled, 50u);
  EXPECT_LE(unrolled, 90u);
  expect_agreement(cases);
}

// Rows of k are padded with what lies beside them in a window; it is masked, as a filter's zero times an infinity is
// none
TEST(Agreement, InfinitiesStayInTheWindowsThatSeeThem) {
  struct Shape {
    std::int64_t channels, taps, stride;
  };
  for (const auto& [channels, taps, stride] : {Shape{3, 7, 2}, Shape{3, 3, 1}, Shape{1, 5, 1}, Shape{16, 3, 1}}) {
    Case c{.name = "infinities", .conv = {}, .text = "store acc as y : bf16", .options = {}};
    c.conv = {.n = 1, .h = 24, .w = 24, .c = channels, .k = 16, .r = taps, .s = taps};
    c.conv.stride = {stride, stride}, c.conv.pad = {taps / 2, taps / 2, taps / 2, taps / 2};
    c.conv.dtype_x = c.conv.dtype_w = DType::bf16;
    c.options.device = Device::cuda, c.options.plan = "load=im2col_smem";
    SCOPED_TRACE(c.describe());
    Testbed testbed(c);
    constexpr std::int64_t line = 11, column = 13;
    Tensor& image = testbed.tensor("(a)");
    constexpr std::uint16_t infinity = 0x7f80;
    for (std::int64_t i = 0; i < channels; ++i)
      std::memcpy(image.host.data() + 2 * ((line * c.conv.w + column) * channels + i), &infinity, 2);
    image.device->upload(image.host.data());
    testbed.compile().run(testbed.arguments());
    const std::vector<std::byte> result = testbed.outputs().at(0);
    const Extents e = extents(Contraction(c.conv));
    const auto sees = [&](std::int64_t pixel, std::int64_t at) {
      const std::int64_t first = pixel * stride - taps / 2;
      return first <= at && at < first + taps;
    };
    for (std::int64_t p = 0; p < e.height; ++p)
      for (std::int64_t q = 0; q < e.width; ++q)
        for (std::int64_t k = 0; k < c.conv.k; ++k) {
          std::uint16_t bits = 0;
          std::memcpy(&bits, result.data() + 2 * ((p * e.width + q) * c.conv.k + k), 2);
          ASSERT_EQ((bits & infinity) == infinity, sees(p, line) && sees(q, column))
              << "pixel " << p << ", " << q << ", channel " << k;
        }
  }
}

TEST(Agreement, ByPhases) {
  const auto cases = phase_cases(options().seed);
  EXPECT_GE(cases.size(), 85u);
  expect_agreement(cases);
}

TEST(Agreement, Volumes) {
  auto cases = volume_cases(options().seed);
  EXPECT_GE(cases.size(), 500u);
  if (device().device.name == "emulated GPU") cases.erase(cases.begin() + 150, cases.end());
  expect_agreement(cases);
}

TEST(Agreement, FlippedTaps) {
  const auto cases = flipped_cases(options().seed);
  EXPECT_GE(cases.size(), 140u);
  expect_agreement(cases);
}

TEST(Agreement, StepsOf128) {
  const auto cases = deep_cases(options().seed);
  EXPECT_GE(cases.size(), 100u);
  expect_agreement(cases);
}

TEST(Agreement, DualProducts) {
  const auto cases = dual_cases(options().seed);
  EXPECT_GE(cases.size(), 160u);
  expect_agreement(cases);
}

TEST(Agreement, StatisticsOfAllImages) {
  const auto cases = batch_cases();
  EXPECT_GE(cases.size(), 30u);
  expect_agreement(cases);
}

TEST(Agreement, RowsCoordinatesAndReductions) {
  const auto cases = general_cases();
  EXPECT_GE(cases.size(), 120u);
  expect_agreement(cases);
}

TEST(Agreement, RowsThatSpanTiles) {
  const auto cases = wide_cases();
  EXPECT_GE(cases.size(), 25u);
  expect_agreement(cases);
}

TEST(Agreement, RowsAndReductionsByPlainStores) {
  const auto cases = general_plain_cases();
  EXPECT_EQ(cases.size(), 12u);
  expect_agreement(cases);
}

TEST(Agreement, ReductionsOverGroupsOfARow) {
  const auto cases = grouped_cases();
  EXPECT_GE(cases.size(), 50u);
  expect_agreement(cases);
}

TEST(Agreement, ReductionsThatElementsReadAgain) {
  const auto cases = returned_cases();
  EXPECT_GE(cases.size(), 120u);
  expect_agreement(cases);
}

TEST(Agreement, ReductionsFarFromZero) {
  const auto cases = general_offset_cases();
  EXPECT_EQ(cases.size(), 4u);
  expect_agreement(cases);
}

TEST(Agreement, ProductsOfTf32) {
  const auto cases = tf32_cases();
  EXPECT_GE(cases.size(), 60u);
  expect_agreement(cases);
}

TEST(Agreement, RandomDelays) { expect_agreement(delay_cases(options().seed)); }

// Plans that are never the best, too
TEST(Agreement, ManyPlans) {
  std::size_t plans = 0;
  for (const Case& c : plan_cases()) {
    Testbed testbed(c);
    const lower::Problem wanted = lower::analyse(c.contraction(), testbed.graph(), c.options).value();
    std::vector<lower::Lowered> kernels;
    for (const families::PlanPointer& p : sample_of_plans(wanted))
      kernels.push_back(lower::lower(wanted, p, planning_device()).value());
    std::vector<jit::Request> requests;
    for (const lower::Lowered& k : kernels) requests.push_back(k.request());
    const auto binaries = compiler().compile(requests);
    Judges judges;
    for (std::size_t i = 0; i < kernels.size(); ++i, ++plans) {
      const Executable executable(cuda::build(kernels[i], binaries[i]));
      std::string problems;
      Outcome outcome = testbed.run(executable, problems);
      outcome.config = conv_config(kernels[i].plan()), outcome.numerics = kernels[i].plan().numerics;
      judges.take(std::move(outcome), problems, c.describe() + "\n" + executable.describe());
    }
    for (const std::string& text : judges.finish()) ADD_FAILURE() << text;
  }
  std::printf("%zu plans\n", plans);
  EXPECT_GT(plans, 60u);
}

}  // namespace
}  // namespace unisono::gpu
