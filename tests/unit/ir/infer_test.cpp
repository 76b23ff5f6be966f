#include "ir/infer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op_table.hpp"
#include "support/says.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

constexpr std::string_view declarations =
    "operand d64[n] : f64\n"
    "operand i[m] : i32\n"
    "operand flag[m] : bool\n"
    "low = cast(acc, bf16)\n"
    "half = cast(acc, f16)\n"
    "short = cast(acc, tf32)\n";

// "[m,n] f32": the type of an expression over the values above
std::string type_of(const std::string& expression) {
  const Graph g = parse(std::string(declarations) + "store " + expression + " as y\n");
  const Node& x = g[g.stores[0].value];
  return to_string(x.axes) + " " + std::string(to_string(x.dtype));
}

std::string error_of(const std::string& expression) {
  try {
    type_of(expression);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Infer, AxesJoinToTheFinest) {
  EXPECT_EQ(type_of("bias[n] + x[m]"), "[m,n] f32");
  EXPECT_EQ(type_of("bias[n] + x[b]"), "[b,n] f32");
  EXPECT_EQ(type_of("bias[n] + 1"), "[n] f32");
  EXPECT_EQ(type_of("temb[b,n] * x[m]"), "[m,n] f32");
  EXPECT_EQ(type_of("fma(alpha[], x[b], beta[])"), "[b] f32");
  EXPECT_EQ(type_of("select(flag[m], x[b], bias[n])"), "[m,n] f32");
}

TEST(Infer, GroupsJoinToThemselvesOrToColumns) {
  EXPECT_EQ(type_of("sum(acc, over=n, groups=4) + sum(acc, over=n, groups=4)"), "[m,g4] f32");
  EXPECT_EQ(type_of("sum(acc, over=n, groups=4) + sum(acc, over=n, groups=8)"), "[m,n] f32");
  EXPECT_EQ(type_of("sum(acc, over=n, groups=4) + 1"), "[m,g4] f32");
  EXPECT_EQ(type_of("sum(acc, over=all, per=b, groups=4) + bias[n]"), "[b,n] f32");
}

TEST(Infer, Reductions) {
  EXPECT_EQ(type_of("sum(acc)"), "[] f32");
  EXPECT_EQ(type_of("sum(acc, over=m)"), "[n] f32");
  EXPECT_EQ(type_of("sum(acc, over=n)"), "[m] f32");
  EXPECT_EQ(type_of("sum(acc, over=m, per=b)"), "[b,n] f32");
  EXPECT_EQ(type_of("sum(acc, over=all, per=b)"), "[b] f32");
  EXPECT_EQ(type_of("sum(acc, over=all, groups=32)"), "[g32] f32");
  EXPECT_EQ(type_of("sum(acc, over=all, per=b, groups=32)"), "[b,g32] f32");
}

TEST(Infer, ReductionsOfBroadcastValues) {
  EXPECT_EQ(type_of("sum(bias[n], over=m)"), "[n] f32");
  EXPECT_EQ(type_of("sum(bias[n], over=n)"), "[] f32");
  EXPECT_EQ(type_of("sum(x[m], over=n)"), "[m] f32");
  EXPECT_EQ(type_of("sum(x[b], over=m)"), "[] f32");
  EXPECT_EQ(type_of("sum(temb[b,n], over=n)"), "[b] f32");
  EXPECT_EQ(type_of("sum(1, over=m)"), "[] f32");
  EXPECT_EQ(type_of("sum(sum(acc, over=n, groups=4), over=m)"), "[g4] f32");
}

TEST(Infer, NormalisationsKeepTheAxesOfTheirInputs) {
  EXPECT_EQ(type_of("group_norm(acc, groups=4)"), "[m,n] f32");
  EXPECT_EQ(type_of("layer_norm(bias[n])"), "[n] f32");
  EXPECT_EQ(type_of("layer_norm(bias[n], scale=x[m])"), "[m,n] f32");
  EXPECT_EQ(type_of("batch_norm(temb[b,n])"), "[b,n] f32");
  EXPECT_EQ(type_of("softmax(x[m], over=m)"), "[m] f32");
  EXPECT_EQ(type_of("softmax(acc, over=n, groups=4)"), "[m,n] f32");
}

TEST(Infer, DtypesMeet) {
  EXPECT_EQ(type_of("low + low"), "[m,n] bf16");
  EXPECT_EQ(type_of("low + half"), "[m,n] f32");
  EXPECT_EQ(type_of("low + short"), "[m,n] f32");
  EXPECT_EQ(type_of("low + acc"), "[m,n] f32");
  EXPECT_EQ(type_of("low + d64[n]"), "[m,n] f64");
  EXPECT_EQ(type_of("low + i[m]"), "[m,n] bf16");
  EXPECT_EQ(type_of("i[m] + flag[m]"), "[m] i32");
  EXPECT_EQ(type_of("flag[m] + flag[m]"), "[m] f32");
  EXPECT_EQ(type_of("fma(low, low, low)"), "[m,n] bf16");
  EXPECT_EQ(type_of("select(flag[m], low, half)"), "[m,n] f32");
  EXPECT_EQ(type_of("select(flag[m], i[m], i[m])"), "[m] i32");
}

TEST(Infer, ConstantsTakeTheDtypeThatTheyMeet) {
  EXPECT_EQ(type_of("low * 0.1"), "[m,n] bf16");
  EXPECT_EQ(type_of("d64[n] * 0.1"), "[n] f64");
  EXPECT_EQ(type_of("2 * 3"), "[] f32");
  EXPECT_EQ(type_of("i[m] + 1"), "[m] i32");
  EXPECT_EQ(type_of("select(flag[m], 1, 0)"), "[m] f32");
  EXPECT_EQ(type_of("select(flag[m], flag[m], 1)"), "[m] bool");
}

TEST(Infer, ConstantsThatAnIntegerCannotHoldMakeItAFloat) {
  EXPECT_EQ(type_of("i[m] + 0.5"), "[m] f32");
  EXPECT_EQ(type_of("max(i[m], -inf)"), "[m] f32");
  EXPECT_EQ(type_of("max(i[m], nan)"), "[m] f32");
  EXPECT_EQ(type_of("i[m] + 2147483647"), "[m] i32");
  EXPECT_EQ(type_of("i[m] + 2147483648"), "[m] f32");
  EXPECT_EQ(type_of("i[m] + -2147483648"), "[m] i32");
  EXPECT_EQ(type_of("select(flag[m], flag[m], 2)"), "[m] f32");
}

TEST(Infer, Integers) {
  EXPECT_EQ(type_of("i[m] / 2"), "[m] f32");
  EXPECT_EQ(type_of("pow(i[m], 2)"), "[m] f32");
  EXPECT_EQ(type_of("-i[m]"), "[m] i32");
  EXPECT_EQ(type_of("square(i[m])"), "[m] i32");
  EXPECT_EQ(type_of("exp(i[m])"), "[m] f32");
  EXPECT_EQ(type_of("sum(i[m], over=m)"), "[] i32");
  EXPECT_EQ(type_of("mean(i[m], over=m)"), "[] f32");
  EXPECT_EQ(type_of("index(h) * extent(w) + index(w)"), "[m] i32");
}

TEST(Infer, BoolsAndComparisons) {
  EXPECT_EQ(type_of("low < 1"), "[m,n] bool");
  EXPECT_EQ(type_of("flag[m] & !(acc > 0)"), "[m,n] bool");
  EXPECT_EQ(type_of("-flag[m]"), "[m] f32");
  EXPECT_EQ(type_of("sum(flag[m])"), "[] f32");
}

TEST(Infer, StatisticsAreAtLeastF32) {
  EXPECT_EQ(type_of("sum(low, over=m)"), "[n] f32");
  EXPECT_EQ(type_of("group_norm(low, groups=4)"), "[m,n] f32");
  EXPECT_EQ(type_of("softmax(half)"), "[m,n] f32");
  EXPECT_EQ(type_of("layer_norm(acc, scale=d64[n])"), "[m,n] f64");
  EXPECT_EQ(type_of("mean(d64[n])"), "[] f64");
}

TEST(Infer, OneHot) {
  EXPECT_EQ(type_of("one_hot(i[m])"), "[m,n] f32");
  EXPECT_EQ(type_of("one_hot(label[b])"), "[b,n] f32");
  EXPECT_EQ(type_of("one_hot(label[])"), "[n] f32");
  EXPECT_THAT(error_of("one_hot(bias[n])"), Says("one_hot … without columns"));
}

TEST(Infer, Refusals) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("acc & flag[m]"),
              HasSubstr("logical_and needs a bool, such as a comparison, and was given f32"));
  EXPECT_THAT(error_of("select(acc, 1, 2)"), HasSubstr("select needs a bool"));
  EXPECT_THAT(error_of("cast(acc, f8e4m3)"), HasSubstr("f8e4m3 is reserved"));
  EXPECT_THAT(error_of("sum(acc, over=n, per=b)"), HasSubstr("image runs over rows"));
  EXPECT_THAT(error_of("sum(acc, over=m, groups=4)"), HasSubstr("with groups=4 runs over columns"));
  EXPECT_THAT(error_of("fma(acc, acc)"), HasSubstr("fma takes 3 inputs and was given 2"));
}

TEST(Infer, PromotionIsCommutativeAndIdempotent) {
  for (int i = 0; i < dtype_count; ++i)
    for (int j = 0; j < dtype_count; ++j) {
      const auto x = static_cast<DType>(i), y = static_cast<DType>(j);
      EXPECT_EQ(ir::promote(x, y), ir::promote(y, x));
      EXPECT_EQ(ir::promote(x, ir::promote(x, y)), ir::promote(x, y)) << to_string(x) << " " << to_string(y);
    }
}

// The reason is what infer() throws
TEST(Infer, ATypeOrAReason) {
  Node acc;
  const Node* const one[] = {&acc};
  Attributes clamped;
  clamped.lower = 2, clamped.upper = 1;
  const auto type = ir::try_infer(Op::exp, one, {}, {});
  ASSERT_TRUE(std::holds_alternative<ir::Inferred>(type));
  EXPECT_EQ(std::get<ir::Inferred>(type).dtype, DType::f32);
  const auto reason = ir::try_infer(Op::clamp, one, clamped, {});
  ASSERT_TRUE(std::holds_alternative<std::string>(reason));
  EXPECT_EQ(std::get<std::string>(reason), "clamp was given lower=2 and upper=1; expected lower <= upper");
  EXPECT_THROW(ir::infer(Op::clamp, one, clamped, {}), UserError);
}

TEST(Infer, LeavesHaveNoInference) {
  EXPECT_THROW(ir::infer(Op::acc, {}, {}, {}), InternalError);
  EXPECT_THROW(ir::normalisation_domain(Op::softmax, 1), InternalError);
}

}  // namespace
}  // namespace unisono
