#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ir/op_table.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"
#include "unit/reference/data.hpp"
#include "unit/reference/index_set.hpp"

namespace unisono::reference::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no UserError";
}

// What an operand contributes to element (m, n), by its axes
TEST(Evaluate, OperandsBroadcastByTheirAxes) {
  const auto acc = random_floats(rows * cols, 1), bn = random_floats(images * cols, 2), n = random_floats(cols, 3),
             m = random_floats(rows, 4), b = random_floats(images, 5), mn = random_floats(rows * cols, 6);
  GraphBuilder g;
  const Value y = g.acc() + g.operand("bn", axes::bn) + g.operand("n", axes::n) + g.operand("m", axes::m) +
                  g.operand("b", axes::b) + g.operand("mn", axes::mn) + g.operand("s");
  g.store(y, DType::f32, "y");
  g.store(g.operand("m", axes::m) * g.operand("b", axes::b), DType::f32, "column");
  g.store(g.operand("b", axes::b) * g.operand("n", axes::n), DType::f32, "outer");
  g.store(g.operand("b", axes::b) * g.operand("m", axes::m) - g.operand("n", axes::n), DType::f32, "whole");
  Arguments arguments;
  arguments.operands = {{"bn", view(bn, {images, cols})},
                        {"n", view(n, {cols})},
                        {"m", view(m, {rows})},
                        {"b", view(b, {images})},
                        {"mn", view(mn, {3, 2, 2, 12})}};
  arguments.scalars["s"] = 0.5;
  const auto r = evaluate(g.build(), conv, exact(acc), arguments);
  ASSERT_EQ(r.at("column").value.size(), 12u);
  ASSERT_EQ(r.at("outer").value.size(), 36u);
  for (int i = 0; i < rows; ++i) {
    EXPECT_EQ(r.at("column").value[i], static_cast<double>(m[i]) * b[i / 4]);
    for (int j = 0; j < cols; ++j) {
      const int k = i * 12 + j, image = i / 4;
      const double sum = static_cast<double>(acc[k]) + bn[image * 12 + j] + n[j] + m[i] + b[image] + mn[k] + 0.5;
      EXPECT_EQ(r.at("y").value[k], sum);
      EXPECT_EQ(r.at("outer").value[image * 12 + j], static_cast<double>(b[image]) * n[j]);
      EXPECT_EQ(r.at("whole").value[k], static_cast<double>(b[image]) * m[i] - n[j]);
    }
  }
}

TEST(Evaluate, GroupsMeetColumns) {
  const auto x = random_integers(rows * cols, 1);
  GraphBuilder g;
  const ReduceDomain four{.rows = true, .cols = true, .groups = 4},
      three{.rows = true, .cols = true, .per_image = true, .groups = 3};
  g.store(g.acc() - sum(g.acc(), four), DType::f32, "y");
  g.store(sum(g.acc(), four) + sum(g.acc(), three), DType::f32, "z");  // [g4] and [b,g3] join to [b,n]
  const auto r = evaluate(g.build(), conv, exact(x), {});
  ASSERT_EQ(r.at("z").axes, axes::bn);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) {
      double s4 = 0, s3 = 0;
      for (int k = 0; k < rows * cols; ++k) {
        if (k % 12 / 3 == j / 3) s4 += x[k];
        if (k % 12 / 4 == j / 4 && k / 48 == i / 4) s3 += x[k];
      }
      EXPECT_EQ(r.at("y").value[i * 12 + j], x[i * 12 + j] - s4);
      EXPECT_EQ(r.at("z").value[i / 4 * 12 + j], s4 + s3);
    }
}

TEST(Evaluate, CoordinatesAndExtents) {
  const Conv2d c{.n = 2, .h = 3, .w = 4, .c = 1, .k = 5};
  GraphBuilder g;
  const Coordinate all[] = {Coordinate::m, Coordinate::n, Coordinate::b, Coordinate::h, Coordinate::w};
  const char* names[] = {"im", "in", "ib", "ih", "iw"};
  for (int i = 0; i < 5; ++i) g.store(g.index(all[i]) + cast(g.acc(), DType::i32) * 0, DType::i32, names[i]);
  for (int i = 0; i < 5; ++i) g.store(g.extent(all[i]), DType::i32, std::string("e") + names[i]);
  const auto r = evaluate(g.build(), c, exact(std::vector<float>(120)), {});
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 3; ++h)
      for (int w = 0; w < 4; ++w)
        for (int n = 0; n < 5; ++n) {
          const int m = (b * 3 + h) * 4 + w, at = m * 5 + n, expected[] = {m, n, b, h, w};
          for (int i = 0; i < 5; ++i) EXPECT_EQ(r.at(names[i]).value[at], expected[i]) << names[i];
        }
  const int extents[] = {24, 5, 2, 3, 4};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(r.at(std::string("e") + names[i]).value[0], extents[i]);
}

TEST(Evaluate, RowsOfABatchedGemm) {
  const Gemm c{.batch = 3, .m = 2, .n = 1, .k = 1};
  GraphBuilder g;
  g.store(g.index(Coordinate::b) * 100 + g.index(Coordinate::h) * 10 + g.index(Coordinate::w), DType::i32, "y");
  EXPECT_THAT(evaluate(g.build(), c, {}, {}).at("y").value, ElementsAre(0, 10, 100, 110, 200, 210));
}

TEST(Evaluate, LayoutsAgree) {
  Conv2d c{.n = 2, .h = 3, .w = 4, .c = 2, .k = 5, .r = 2, .s = 2, .pad = {1, 0, 0, 1}};
  const auto x = random_floats(2 * 3 * 4 * 2, 1), w = random_floats(5 * 2 * 2 * 2, 2),
             res = random_floats(2 * 3 * 4 * 5, 3);
  GraphBuilder g;
  g.store(group_norm(g.acc() + g.operand("res", axes::mn), {5, {}, {}, 1e-5}), DType::f32, "y");
  const Graph graph = g.build();
  Arguments arguments;
  arguments.image = view(x, {2, 3, 4, 2});
  arguments.filter = view(w, {5, 2, 2, 2});
  arguments.operands["res"] = view(res, {2, 3, 4, 5});
  const Values nhwc = run(c, graph, arguments).at("y");
  // the same memory described as (N,C,H,W) by strides
  c.layout = Layout::nchw;
  arguments.image = {x.data(), DType::f32, {2, 2, 3, 4}, {24, 1, 8, 2}};
  arguments.filter = {w.data(), DType::f32, {5, 2, 2, 2}, {8, 1, 4, 2}};
  arguments.operands["res"] = {res.data(), DType::f32, {2, 5, 3, 4}, {60, 1, 20, 5}};
  const Values nchw = run(c, graph, arguments).at("y");
  EXPECT_EQ(nhwc.value, nchw.value);
  EXPECT_EQ(nhwc.bound, nchw.bound);
}

TEST(Evaluate, ScalarsByValueByPointerAndByDefault) {
  GraphBuilder g;
  g.store(g.operand("s", axes::scalar, OperandOptions{{}, 0.25}) * 2, DType::f32, "y");
  const Graph graph = g.build();
  const auto value = [&](const Arguments& a) { return evaluate(graph, conv, {}, a).at("y").value[0]; };
  const std::vector<float> three{3};
  const std::uint16_t four = support::float_to_bf16(4);
  Arguments a;
  EXPECT_EQ(value(a), 0.5);
  a.scalars["s"] = 1.5;
  EXPECT_EQ(value(a), 3);
  a.scalars.clear();
  a.operands["s"] = view(three, {});
  EXPECT_EQ(value(a), 6);
  a.operands["s"] = view(three, {1});
  EXPECT_EQ(value(a), 6);
  a.operands["s"] = {&four, DType::bf16, {}, {}};
  EXPECT_EQ(value(a), 8);
  a.scalars["s"] = 1;
  EXPECT_THAT(message_of([&] { value(a); }), HasSubstr("bound twice"));
}

TEST(Evaluate, ConstantsTakeTheTypeOfWhatTheyMeet) {
  GraphBuilder g;
  const Value wide = g.operand("wide", axes::scalar, OperandOptions{DType::f64, {}});
  g.store(wide + 0.1, DType::f64, "sum64");
  g.store(g.operand("s") + 0.1, DType::f32, "sum32");
  g.store(cast(g.operand("s"), DType::i32) * 3, DType::i32, "whole");
  Arguments a;
  a.scalars = {{"wide", 1}, {"s", 1}};
  const auto r = evaluate(g.build(), conv, {}, a);
  EXPECT_LT(r.at("sum64").bound[0], 1e-15);
  EXPECT_EQ(r.at("sum32").value[0], 1.1);                         // held in float64 …
  EXPECT_GE(r.at("sum32").bound[0], std::abs(1.0 + 0.1f - 1.1));  // … with the rounding of 0.1 to f32 allowed for
  EXPECT_EQ(r.at("whole").value[0], 3);
  EXPECT_EQ(r.at("whole").bound[0], 0);
}

TEST(Evaluate, StorageThatFloatsCannotHoldIsBounded) {
  GraphBuilder g;
  g.store(g.operand("x", axes::m) + 0, DType::f64, "y");
  const Gemm c{.m = 2, .n = 1, .k = 1};
  const std::vector<double> x{0.5, 0.1};
  const std::vector<std::int32_t> i{7, (1 << 24) + 1};
  Arguments a;
  a.operands["x"] = view(x, {2});
  Values y = evaluate(g.build(), c, {}, a).at("y");
  EXPECT_EQ(y.bound[0], 0);
  EXPECT_GE(y.bound[1], std::abs(0.1 - 0.1f));
  a.operands["x"] = view(i, {2});
  y = evaluate(g.build(), c, {}, a).at("y");
  EXPECT_EQ(y.bound[0], 0);
  EXPECT_GE(y.bound[1], 1);
}

TEST(Evaluate, BoolAndHalfOperands) {
  GraphBuilder g;
  const Value mask = g.operand("mask", axes::n, OperandOptions{DType::boolean, {}});
  g.store(select(mask, g.operand("half", axes::n), g.constant(-1)), DType::f32, "y");
  const Gemm c{.m = 1, .n = 3, .k = 1};
  const std::uint8_t bits[] = {1, 0, 7};
  const std::uint16_t half[] = {support::float_to_f16(1.5f), support::float_to_f16(2), support::float_to_f16(0x1p-24f)};
  Arguments a;
  a.operands = {{"mask", {bits, DType::boolean, {3}, {}}}, {"half", {half, DType::f16, {3}, {}}}};
  const Values y = evaluate(g.build(), c, {}, a).at("y");
  EXPECT_THAT(y.value, ElementsAre(1.5, -1, 0x1p-24));
  EXPECT_THAT(y.bound, Each(0));
}

TEST(Evaluate, IntegersCompareExactlyAndConvertWithRounding) {
  GraphBuilder g;
  const Value i = g.operand("i", axes::n, OperandOptions{DType::i32, {}});
  g.store(cast(i < 16777217, DType::i32), DType::i32, "below");
  g.store(i * 1.5, DType::f32, "scaled");
  g.store(cast(i == 1e10, DType::i32), DType::i32, "at_large");
  const Gemm c{.m = 1, .n = 2, .k = 1};
  const std::vector<std::int32_t> values{16777216, 16777217};
  Arguments a;
  a.operands["i"] = view(values, {2});
  const auto y = evaluate(g.build(), c, {}, a);
  EXPECT_THAT(y.at("below").value, ElementsAre(1, 0));
  EXPECT_THAT(y.at("below").bound, Each(0));
  EXPECT_THAT(y.at("at_large").value, Each(0));
  EXPECT_EQ(y.at("scaled").bound[0], 0);
  EXPECT_GE(y.at("scaled").bound[1], 1.5);
}

TEST(Evaluate, UserFunctions) {
  GraphBuilder g;
  g.define({"hypotenuse", 2, true, "", [](std::span<const double> x) { return std::hypot(x[0], x[1]); }});
  g.store(*g.call("hypotenuse", {g.acc(), g.index(Coordinate::n)}), DType::f32, "y");
  Values acc = exact(random_floats(rows * cols, 1, 1, 2));
  const Values sharp = evaluate(g.build(), conv, acc, {}).at("y");
  std::fill(acc.bound.begin(), acc.bound.end(), 1e-3);
  const Values blurred = evaluate(g.build(), conv, acc, {}).at("y");
  for (int k = 0; k < rows * cols; ++k) {
    const double x = acc.value[k], n = k % 12;
    EXPECT_DOUBLE_EQ(sharp.value[k], std::sqrt(x * x + n * n));
    EXPECT_LT(sharp.bound[k], 1e-5);
    EXPECT_GE(blurred.bound[k], std::hypot(x + 1e-3, n) - std::hypot(x, n));
    EXPECT_LT(blurred.bound[k], 2.1e-3);
  }
}

TEST(Evaluate, EffectsAreCalledOncePerElementInOrder) {
  std::vector<std::pair<int, double>> calls;
  GraphBuilder g;
  const auto record = [&](int which) {
    return [&calls, which](std::span<const double> x) {
      calls.emplace_back(which, x[0]);
      return 0.0;
    };
  };
  g.define({"first", 1, false, "", record(1)});
  g.define({"second", 1, false, "", record(2)});
  g.call("first", {g.operand("x", axes::n)});
  g.call("second", {g.acc() + 0});
  const std::vector<float> n{5, 6, 7}, mn{0, 1, 2, 3, 4, 5};
  Arguments a;
  a.operands["x"] = view(n, {3});
  const Gemm c{.m = 2, .n = 3, .k = 1};
  EXPECT_TRUE(evaluate(g.build(), c, exact(mn), a).empty());
  EXPECT_THAT(calls,
              ElementsAre(std::pair(1, 5.), std::pair(1, 6.), std::pair(1, 7.), std::pair(2, 0.), std::pair(2, 1.),
                          std::pair(2, 2.), std::pair(2, 3.), std::pair(2, 4.), std::pair(2, 5.)));
}

TEST(Evaluate, KnowsEveryOperation) {
  for (int i = 0; i < op_count; ++i) {
    const Op op = static_cast<Op>(i);
    const auto op_class = ir::info(op).op_class;
    if (op_class == ir::OpClass::leaf || op == Op::call) continue;
    SCOPED_TRACE(std::string(to_string(op)));
    GraphBuilder g;
    const bool logical = op_class == ir::OpClass::logical || op == Op::logical_not;
    const Value number = op == Op::one_hot ? g.operand("m", axes::m) : g.acc(), truth = number > 0;
    std::vector<Value> inputs(static_cast<std::size_t>(std::max(ir::info(op).arity, 1)), logical ? truth : number);
    if (op == Op::select) inputs[0] = truth;
    Attributes attr;
    if (op == Op::leaky_relu || op == Op::elu || op == Op::hardsigmoid) attr.alpha = 0.5;
    if (op == Op::clamp) attr.upper = 1;
    if (ir::is_reduction(op) || op == Op::softmax) attr.domain = over_all;
    if (ir::is_normalisation(op)) attr.domain = ir::normalisation_domain(op, 1);
    g.store(g.node(op, inputs, attr, op == Op::cast ? std::optional(DType::bf16) : std::nullopt), DType::f32, "y");
    const std::vector<float> m(rows, 1);
    Arguments a;
    a.operands["m"] = view(m, {rows});
    EXPECT_NO_THROW({
      const Values y = evaluate(g.build(), conv, exact(random_floats(rows * cols, 1)), a).at("y");
      EXPECT_EQ(y.value.size(), y.bound.size());
      EXPECT_FALSE(y.value.empty());
    });
  }
}

TEST(Evaluate, NeedsOnlyWhatIsStored) {
  GraphBuilder g;
  (void)(g.operand("unused", axes::mn) + g.acc());
  g.store(g.operand("x", axes::n) * 2, DType::f32, "y");
  const std::vector<float> x(12, 1);
  Arguments a;
  a.operands["x"] = view(x, {cols});
  a.operands["of another graph"] = {};
  EXPECT_THAT(evaluate(g.build(), conv, {}, a).at("y").value, Each(2));
}

TEST(Evaluate, RefusesWrongArguments) {
  GraphBuilder g;
  g.store(g.operand("x", axes::bn) + g.operand("t", axes::n, OperandOptions{DType::bf16, {}}), DType::f32, "y");
  const Graph graph = g.build();
  const std::vector<float> bn(images * cols), n(cols);
  const std::vector<std::uint16_t> t(cols);
  const auto message = [&](Arguments a) { return message_of([&] { evaluate(graph, conv, {}, a); }); };
  Arguments good;
  good.operands = {{"x", view(bn, {images, cols})}, {"t", {t.data(), DType::bf16, {cols}, {}}}};
  EXPECT_EQ(message(good), "no UserError");
  Arguments a = good;
  a.operands.erase("x");
  EXPECT_THAT(message(a), AllOf(HasSubstr("operand x[b,n] is not bound"), HasSubstr("Arguments::operands")));
  a = good;
  a.operands["x"] = view(bn, {cols, images});
  EXPECT_THAT(message(a), AllOf(HasSubstr("operand x[b,n]"), HasSubstr("(12, 3); expected (3, 12)")));
  a = good;
  a.operands["t"] = view(n, {cols});
  EXPECT_THAT(message(a), AllOf(HasSubstr("declared bf16"), HasSubstr("of f32")));
  a = good;
  a.operands.erase("x");
  a.scalars["x"] = 1;
  EXPECT_THAT(message(a), HasSubstr("x[b,n] was given the number 1"));
  GraphBuilder with_acc;
  with_acc.store(with_acc.acc(), DType::f32, "y");
  EXPECT_THAT(message_of([&] { evaluate(with_acc.build(), conv, exact(n), {}); }), HasSubstr("given 12 values"));
  GraphBuilder with_call;
  with_call.define({"on_gpu", 1, true, "__device__ float on_gpu(float x) { return x; }", nullptr});
  with_call.store(*with_call.call("on_gpu", {with_call.index(Coordinate::n)}), DType::f32, "y");
  EXPECT_THAT(message_of([&] { evaluate(with_call.build(), conv, {}, {}); }), HasSubstr("on_gpu has no CPU callable"));
  GraphBuilder with_integer;
  with_integer.store(with_integer.operand("i", axes::scalar, OperandOptions{DType::i32, {}}), DType::i32, "y");
  Arguments half;
  half.scalars["i"] = 2.5;
  EXPECT_THAT(message_of([&] { evaluate(with_integer.build(), conv, {}, half); }), HasSubstr("expected an integer"));
}

}  // namespace
}  // namespace unisono::reference::test
