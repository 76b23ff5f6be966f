#include "command/execution.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "command/report.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

TEST(Median, OddEvenAndNone) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(Percentile, IsTheNearestRank) {
  std::vector<double> values(200);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 77) % 200 + 1);  // 1 to 200
  EXPECT_EQ(percentile(values, 0), 1);
  EXPECT_EQ(percentile(values, 50), 100);
  EXPECT_EQ(percentile(values, 90), 180);
  EXPECT_EQ(percentile(values, 99), 198);
  EXPECT_EQ(percentile(values, 100), 200);
  EXPECT_EQ(percentile({3, 1, 2}, 90), 3);
  EXPECT_EQ(percentile({3, 1, 2}, 34), 2);  // one of three is 33.3 %
  EXPECT_EQ(percentile({}, 90), 0);
}

TEST(Timing, TextHasThePercentilesThatTheRunsAreEnoughFor) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  EXPECT_EQ(to_text(timing_of(7, times)),
            "50.50 ms a run (median of 100; fastest 1.00, p90 90.00, p99 99.00), the first 7.0 ms");
  times.resize(10);  // 91 to 100
  EXPECT_EQ(to_text(timing_of(7, times)), "95.50 ms a run (median of 10; fastest 91.00, p90 99.00), the first 7.0 ms");
  EXPECT_EQ(to_text(timing_of(7, {3, 2})), "2.50 ms a run (median of 2; fastest 2.00), the first 7.0 ms");
  EXPECT_EQ(to_text(timing_of(7, {3})), "3.00 ms a run (median of 1), the first 7.0 ms");
  EXPECT_EQ(to_text(timing_of(7, {})), "7.00 ms (one run)");
}

TEST(Timing, OfOneRunIsItsTime) {
  const Timing t = timing_of(7, {});
  EXPECT_THAT((std::array{t.fastest_ms, t.median_ms, t.p90_ms, t.p99_ms}), testing::Each(7.0));
  EXPECT_EQ(t.runs, 0);
}

TEST(RandomTensor, DependsOnTheSeedAlone) {
  const Tensor32 a = random_tensor({3, 100}, 5), b = random_tensor({3, 100}, 5), c = random_tensor({3, 100}, 6);
  EXPECT_EQ(a.value, b.value);
  EXPECT_NE(a.value, c.value);
  EXPECT_THAT(a.value, testing::Each(testing::AllOf(testing::Ge(0.0f), testing::Lt(1.0f))));
  // of std::mt19937_64, which the standard defines
  EXPECT_EQ(random_tensor({1}, 5489).value[0], static_cast<float>(14514284786278117030ull >> 40) * 0x1p-24f);
}

media::Array array(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  return to_array(Tensor32{std::move(shape), values});
}

TEST(RandomArray, IntegersAreZerosAndOnes) {
  const media::Array a = random_array({50}, DType::i64, 1);
  EXPECT_EQ(a.type, DType::i64);
  std::vector<std::int64_t> values(50);
  std::memcpy(values.data(), a.bytes.data(), a.bytes.size());
  EXPECT_THAT(values, testing::AllOf(testing::Each(testing::AnyOf(0, 1)), testing::Contains(0), testing::Contains(1)));
  EXPECT_EQ(random_array({50}, DType::f16, 1).bytes.size(), 100u);
}

TEST(Append, JoinsAlongTheFirstAxis) {
  media::Array a = array({1, 2}, {1, 2});
  append(a, array({2, 2}, {3, 4, 5, 6}));
  EXPECT_THAT(a.shape, testing::ElementsAre(3, 2));
  EXPECT_THAT(to_tensor32(a, "a").value, testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THROW(append(a, array({1, 3}, {1, 2, 3})), UserError);
  media::Array scalar = array({}, {1});
  EXPECT_THROW(append(scalar, array({}, {2})), UserError);
}

TEST(Execute, RunsMeasuresAndProfiles) {
  NetworkBuilder net;
  net.output(relu(net.input("x", {"batch", 3}) - 1), "y");
  const NetworkExecutable executable = compile(net.build());
  const Execution e = execute(executable, {{"x", array({2, 3}, {0, 1, 2, 3, -4, 5})}}, 3, true);
  EXPECT_THAT(e.outputs.at("y").shape, testing::ElementsAre(2, 3));
  EXPECT_THAT(to_tensor32(e.outputs.at("y"), "y").value, testing::ElementsAre(0, 0, 1, 2, 0, 4));
  EXPECT_EQ(e.timing.runs, 3);
  EXPECT_GT(e.timing.first_ms, 0);
  EXPECT_FALSE(e.profile.empty());
}

TEST(Execute, IntegersKeepEveryBit) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {"n"}, DType::i64);
  net.output(net.apply(operators::Map{MapOp::add}, {x, x}), "y");
  const std::vector<std::int64_t> given{(std::int64_t{1} << 60) + 1, -3};
  const Execution e = execute(compile(net.build()), {{"x", media::to_array({given.data(), DType::i64, {2}, {}})}}, 0);
  const media::Array& y = e.outputs.at("y");
  ASSERT_EQ(y.type, DType::i64);
  std::vector<std::int64_t> doubled(2);
  std::memcpy(doubled.data(), y.bytes.data(), y.bytes.size());
  EXPECT_THAT(doubled, testing::ElementsAre((std::int64_t{1} << 61) + 2, -6));
  EXPECT_THROW(to_tensor32(y, "y"), UserError);
  EXPECT_THROW(to_float64(e.outputs), Unsupported);  // 2^61 + 2 has no f64
}

// 64 TB: an error before a byte of it is allocated
TEST(Execute, OutputsBeyondTheMachine) {
  NetworkBuilder net;
  net.output(net.apply(operators::Tile{.repeats = {1 << 30, 1 << 14}}, {net.input("x", {1, 1})}), "y");
  const NetworkExecutable network = compile(net.build());
  try {
    execute(network, {{"x", array({1, 1}, {1})}}, 0);
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("(outputs 70368744177664, "), std::string::npos) << what;
    EXPECT_NE(what.find("inputs 4"), std::string::npos) << what;
  }
}

TEST(Grouped, Thousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(1234567890), "1,234,567,890");
}

TEST(PeakMemory, IsKnown) { EXPECT_GT(peak_memory(), std::size_t{1} << 20); }

}  // namespace
}  // namespace unisono::command
