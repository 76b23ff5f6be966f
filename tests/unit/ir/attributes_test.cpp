#include "ir/attributes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/infer.hpp"
#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Attributes, NumbersByBitsAndOneNaN) {
  EXPECT_TRUE(same_number(nan, -nan));
  EXPECT_FALSE(same_number(0.0, -0.0));
  EXPECT_FALSE(same_number(nan, 0.0));
  EXPECT_TRUE(same_number(std::optional<double>(), std::optional<double>()));
  EXPECT_FALSE(same_number(std::optional<double>(), std::optional<double>(0.0)));
}

TEST(Attributes, EveryFieldCounts) {
  const auto differs = [](auto change) {
    Attributes x;
    change(x);
    return !same_attributes(x, Attributes{});
  };
  EXPECT_TRUE(differs([](Attributes& a) { a.value = 1; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.alpha = 1; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.beta = 1; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.lower = 1; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.upper = 1; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.eps = 1; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.has_scale = true; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.has_shift = true; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.domain.groups = 2; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.coordinate = Coordinate::b; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.name = "x"; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.storage = DType::f32; }));
  EXPECT_TRUE(differs([](Attributes& a) { a.default_value = 0; }));
}

TEST(Attributes, ExactIntegersAndBools) {
  EXPECT_TRUE(is_exact_in(-0x1p31, DType::i32));
  EXPECT_FALSE(is_exact_in(0x1p31, DType::i32));
  EXPECT_FALSE(is_exact_in(0.5, DType::i32));
  EXPECT_FALSE(is_exact_in(nan, DType::i32));
  EXPECT_FALSE(is_exact_in(infinity, DType::i32));
  EXPECT_TRUE(is_exact_in(1, DType::boolean));
  EXPECT_FALSE(is_exact_in(2, DType::boolean));
  EXPECT_FALSE(is_exact_in(nan, DType::boolean));
}

Attributes with(double Attributes::*field, double value) {
  Attributes a;
  a.*field = value;
  return a;
}

TEST(Attributes, RangesOfNumbers) {
  EXPECT_NO_THROW(check_attributes(Op::leaky_relu, with(&Attributes::alpha, -1)));
  EXPECT_THROW(check_attributes(Op::leaky_relu, with(&Attributes::alpha, nan)), UserError);
  EXPECT_THROW(check_attributes(Op::elu, with(&Attributes::alpha, infinity)), UserError);
  EXPECT_THROW(check_attributes(Op::hardsigmoid, with(&Attributes::beta, -infinity)), UserError);
  EXPECT_NO_THROW(check_attributes(Op::clamp, with(&Attributes::upper, infinity)));
  EXPECT_THROW(check_attributes(Op::clamp, with(&Attributes::upper, -1)), UserError);
  EXPECT_THROW(check_attributes(Op::clamp, with(&Attributes::lower, nan)), UserError);
}

TEST(Attributes, RangesOfDomains) {
  const auto check = [](Op op, ReduceDomain d) {
    Attributes a;
    a.domain = d;
    check_attributes(op, a);
  };
  EXPECT_NO_THROW(check(Op::sum, {.cols = true, .groups = 1 << 20}));
  EXPECT_THROW(check(Op::sum, {.cols = true, .groups = (1 << 20) + 1}), UserError);
  EXPECT_THROW(check(Op::sum, {.cols = true, .groups = 0}), UserError);
  EXPECT_THROW(check(Op::sum, {.cols = true, .groups = -1}), UserError);
  EXPECT_THROW(check(Op::sum, {}), UserError);
  EXPECT_THROW(check(Op::softmax, {.cols = true, .per_image = true}), UserError);
  EXPECT_THROW(check(Op::mean, {.rows = true, .groups = 2}), UserError);
}

TEST(Attributes, NormalisationsHaveTheDomainOfTheirOperation) {
  for (const Op op : {Op::group_norm, Op::instance_norm, Op::layer_norm, Op::rms_norm, Op::batch_norm}) {
    Attributes a;
    a.domain = normalisation_domain(op, 1);
    EXPECT_NO_THROW(check_attributes(op, a));
    a.eps = -1e-5;
    EXPECT_THROW(check_attributes(op, a), UserError);
    a.eps = nan;
    EXPECT_THROW(check_attributes(op, a), UserError);
    a.eps = infinity;
    EXPECT_THROW(check_attributes(op, a), UserError);
    a.eps = 0;
    a.domain = {.rows = true, .cols = true};
    EXPECT_THROW(check_attributes(op, a), UserError) << to_string(op);
  }
  Attributes shifted;
  shifted.domain = over_n;
  shifted.has_shift = true;
  EXPECT_THROW(check_attributes(Op::rms_norm, shifted), UserError);
}

// A leftover that the operation does not read would make equal nodes unequal
TEST(Attributes, UnreadFieldsMustBeAtTheirDefaults) {
  for (int i = 0; i < op_count; ++i) {
    const auto op = static_cast<Op>(i);
    if (op != Op::constant) {
      EXPECT_THROW(check_attributes(op, with(&Attributes::value, 1)), UserError) << to_string(op);
    }
    if (op != Op::clamp) {
      EXPECT_THROW(check_attributes(op, with(&Attributes::upper, 1)), UserError) << to_string(op);
    }
    if (!is_normalisation(op)) {
      EXPECT_THROW(check_attributes(op, with(&Attributes::eps, 1)), UserError) << to_string(op);
    }
    Attributes named;
    named.name = "x";
    if (op != Op::operand && op != Op::call) {
      EXPECT_THROW(check_attributes(op, named), UserError) << to_string(op);
    }
    Attributes coordinate;
    coordinate.coordinate = Coordinate::w;
    if (op != Op::index && op != Op::extent) {
      EXPECT_THROW(check_attributes(op, coordinate), UserError) << to_string(op);
    }
  }
}

}  // namespace
}  // namespace unisono::ir
