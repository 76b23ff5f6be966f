/// What the check of a network claims: where f32 ends, and of NaN.
#include "reference/network/answer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "command/report.hpp"

namespace unisono::command {

using namespace float64;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

Tensor64 vector_of(Values values, DType dtype = DType::f32) {
  const auto n = std::ssize(values);
  return {{n}, std::move(values), Values(static_cast<std::size_t>(n), 0.0), dtype};
}

/// y = f(x) of a vector, compared with what an implementation gave.
template <class F>
NetworkAgreement check(const F& f, const Values& x, const Values& y, DType dtype = DType::f32) {
  NetworkBuilder net;
  net.output(f(net.input("x", {std::ssize(x)})), "y");
  Tensor64 actual = vector_of(y, dtype);
  if (y.size() == 1) actual.shape = {};
  return check_network(net.build(), {{"x", vector_of(x)}}, {{"y", actual}}).at(0);
}

auto reduction(ReduceOp op) {
  return [op](NetworkValue x) { return x.builder().apply(operators::Reduce{op, {0}, false}, {x}); };
}

NetworkValue exponential(NetworkValue x) { return exp(x); }

// float32 has one answer: infinity
TEST(NetworkAnswer, ResultsBeyondF32AreInfinite) {
  const double e = std::exp(1.0);
  const NetworkAgreement a = check(exponential, {1, 100, -200}, {e, infinite, 0});
  EXPECT_TRUE(a.ok()) << to_text(a);
  EXPECT_EQ(a.judged(), 3);
  EXPECT_LT(a.tolerance, 1e-5) << "1e43 is no value of the output";
  EXPECT_EQ(check(exponential, {1, 100}, {e, 3e38}).outside, 1);
  EXPECT_EQ(check(exponential, {1, 100}, {e, -infinite}).outside, 1);
  EXPECT_EQ(check(exponential, {1, 100}, {e, nan}).outside, 1);
}

// An implementation may overflow on the way, or join the factors
TEST(NetworkAnswer, WhatOverflowsOnTheWayIsLeftOut) {
  const auto there_and_back = [](NetworkValue x) { return x * 1e30 * 1e30 * 1e-30 * 1e-30; };
  for (const double y : {infinite, 2.0, nan}) {
    const NetworkAgreement a = check(there_and_back, {2, 0}, {y, 0});
    EXPECT_TRUE(a.ok()) << y;
    EXPECT_EQ(a.unclaimed, 1);
    EXPECT_EQ(a.judged(), 1);
  }
  const NetworkAgreement all = check(there_and_back, {2, 3}, {infinite, infinite});
  EXPECT_FALSE(all.compared());
  EXPECT_THAT(to_text(all), testing::HasSubstr("NOTHING WAS COMPARED"));
  EXPECT_EQ(check(there_and_back, {1e-30, 0}, {3e-30, 0}).outside, 1) << "nothing overflows";
}

TEST(NetworkAnswer, WithinAReductionToo) {
  for (const ReduceOp op : {ReduceOp::l2, ReduceOp::log_sum}) {
    const auto f = reduction(op);
    const Values x(4, op == ReduceOp::l2 ? 1e25 : 2e38);
    const double exact = op == ReduceOp::l2 ? 2e25 : std::log(8e38);
    for (const double y : {infinite, exact}) EXPECT_TRUE(check(f, x, {y}).ok()) << static_cast<int>(op) << ' ' << y;
    EXPECT_EQ(check(f, x, {exact}).unclaimed, 1);
  }
}

// Subnormal numbers may be flushed, as parts of a result and as results
TEST(NetworkAnswer, UnderflowIsNoDisagreement) {
  const Values x(8, 1e-25);
  for (const double y : {0.0, 8e-50, 1e-40}) EXPECT_TRUE(check(reduction(ReduceOp::sum_square), x, {y}).ok()) << y;
  for (const double y : {0.0, 2.83e-25}) EXPECT_TRUE(check(reduction(ReduceOp::l2), x, {y}).ok()) << y;
  EXPECT_EQ(check(reduction(ReduceOp::sum_square), x, {1e-30}).outside, 1);
  EXPECT_EQ(check(reduction(ReduceOp::sum), x, {0}).outside, 1) << "sums of normal numbers do not underflow";
  EXPECT_TRUE(check([](NetworkValue v) { return v * 1e-30; }, {1e-10, 1e-9}, {0, 0}).ok());
}

TEST(NetworkAnswer, NaNOfTheReferenceMustBeNaN) {
  const auto logarithm = [](NetworkValue x) { return log(x); };
  const NetworkAgreement some = check(logarithm, {-1, 1}, {nan, 0});
  EXPECT_TRUE(is_right({some}));
  EXPECT_EQ(some.not_numbers, 1);
  EXPECT_THAT(to_text(some), testing::HasSubstr("1 of 2 values agree"));
  EXPECT_EQ(check(logarithm, {-1, 1}, {0, 0}).outside, 1);
  const NetworkAgreement none = check(logarithm, {-1, -2}, {nan, nan});
  EXPECT_FALSE(is_right({none}));
  EXPECT_THAT(to_text(none), testing::HasSubstr("NOTHING WAS COMPARED: all 2 values are NaN"));
  EXPECT_TRUE(check(logarithm, {0, 1}, {-infinite, 0}).ok());
  EXPECT_FALSE(is_right({NetworkAgreement{.output = "y"}})) << "an output without elements";
}

// As NumPy: a NaN is beyond every number, the first of several counts
TEST(NetworkAnswer, ExtremesAmongNaN) {
  const Values x{3, nan, 5, nan, 1};
  for (const bool smallest : {false, true}) {
    for (const bool last : {false, true}) {
      const auto f = [&](NetworkValue v) {
        return v.builder().apply(operators::ArgReduce{.axis = 0, .smallest = smallest, .keep = false, .last = last},
                                 {v});
      };
      EXPECT_TRUE(is_right({check(f, x, {last ? 3.0 : 1.0}, DType::i64)})) << smallest << last;
      EXPECT_EQ(check(f, x, {smallest ? 4.0 : 2.0}, DType::i64).outside, 1);
    }
  }
}

/// The values that y = f(x) has in evaluations with other decisions, of each element the smallest and the largest.
template <class F>
std::vector<std::pair<double, double>> ranges(const F& f, const Values& x) {
  NetworkBuilder net;
  net.output(f(net.input("x", {std::ssize(x)})), "y");
  const Network network = net.build();
  NetworkAnswer answer(network, {{"x", vector_of(x)}});
  answer.evaluate_disturbed(4, 11);
  answer.evaluate_undecided(4);
  std::vector<std::pair<double, double>> both;
  for (std::size_t i = 0; i < answer.expected().at("y").value.size(); ++i) {
    both.emplace_back(infinite, -infinite);
    for (const Tensors64& d : answer.disturbed()) {
      const double y = d.at("y").value[i];
      both.back() = {std::min(both.back().first, y), std::max(both.back().second, y)};
    }
  }
  return both;
}

NetworkValue map(MapOp op, std::vector<NetworkValue> x, DType to = DType::f32) {
  return x[0].builder().apply(operators::Map{op, to}, x);
}

using testing::ElementsAre;
using testing::Pair;

// tanh(x) is x in f32 where x is small, and no evaluation that is merely disturbed makes them equal
TEST(NetworkAnswer, ComparisonsOfNearlyEqualValuesFallEitherWay) {
  const auto equal = [](NetworkValue x) { return map(MapOp::equal, {tanh(x), x}); };
  EXPECT_THAT(ranges(equal, {1e-5, 0.01, 1}), ElementsAre(Pair(0, 1), Pair(0, 0), Pair(0, 0)));
  const auto less = [](NetworkValue x) { return map(MapOp::less, {tanh(x), x}); };
  EXPECT_THAT(ranges(less, {1e-5, 0.01, -1}), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(0, 0)));
  const auto given = [](NetworkValue x) { return map(MapOp::equal, {x, x}); };
  EXPECT_THAT(ranges(given, {1e-5}), ElementsAre(Pair(1, 1))) << "nothing is rounded";
}

TEST(NetworkAnswer, RoundingsToIntegersFallEitherWayAtAStep) {
  const auto thrice = [](MapOp op, DType to = DType::f32) {
    return [=](NetworkValue x) { return map(op, {x * 3}, to); };
  };
  const double third = 1.0 / 3;
  EXPECT_THAT(ranges(thrice(MapOp::floor), {third, 0.4, -third}), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(-2, -1)));
  EXPECT_THAT(ranges(thrice(MapOp::ceil), {third, 0.4, -third}), ElementsAre(Pair(1, 2), Pair(2, 2), Pair(-1, 0)));
  EXPECT_THAT(ranges(thrice(MapOp::round), {third / 2, 0.4, -third / 2}),
              ElementsAre(Pair(0, 1), Pair(1, 1), Pair(-1, 0)));
  EXPECT_THAT(ranges(thrice(MapOp::cast, DType::i32), {third, 0.1, -third}),
              ElementsAre(Pair(0, 1), Pair(0, 0), Pair(-1, 0)));
  EXPECT_THAT(ranges(thrice(MapOp::sign), {1, -1}), ElementsAre(Pair(1, 1), Pair(-1, -1)));
}

TEST(NetworkAnswer, TheLargestMayBeAnotherOfNearlyEqualOnes) {
  const auto largest = [](NetworkValue x) {
    return x.builder().apply(operators::ArgReduce{.axis = 0, .keep = true}, {tanh(x)});
  };
  EXPECT_THAT(ranges(largest, {0.5, 1, 1 - 1e-9}), ElementsAre(Pair(1, 2)));
  EXPECT_THAT(ranges(largest, {0.5, 1, 0.9}), ElementsAre(Pair(1, 1)));
}

// 1/(tanh(x) - x) is finite, and infinite in f32
TEST(NetworkAnswer, WhatF32RoundsToZeroMayBeDividedBy) {
  const auto inverse = [](NetworkValue x) { return 1 / (tanh(x) - x); };
  const auto both = ranges(inverse, {0x1p-17, 1});
  EXPECT_TRUE(std::isinf(both.at(0).first) || std::isinf(both.at(0).second)) << both[0].first << ' ' << both[0].second;
  EXPECT_GT(both.at(1).first, -5);
}

}  // namespace
}  // namespace unisono::command
