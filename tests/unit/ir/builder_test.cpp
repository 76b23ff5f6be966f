#include "unisono/builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using testing::HasSubstr;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

UserFunction function(const std::string& name, int arity, bool returns_value = true) {
  return {.name = name, .arity = arity, .returns_value = returns_value, .cuda_source = "x", .cpu = {}};
}

TEST(Builder, LeavesStandOnce) {
  GraphBuilder g;
  EXPECT_EQ(g.acc().id(), g.acc().id());
  EXPECT_EQ(g.constant(2).id(), g.constant(2).id());
  EXPECT_EQ(g.operand("bias", axes::n).id(), g.operand("bias", axes::n).id());
  EXPECT_EQ(g.index(Coordinate::h).id(), g.index(Coordinate::h).id());
  EXPECT_NE(g.index(Coordinate::h).id(), g.extent(Coordinate::h).id());
  EXPECT_NE(g.index(Coordinate::h).id(), g.index(Coordinate::w).id());
  EXPECT_NE(g.constant(2).id(), g.constant(3).id());
}

TEST(Builder, ConstantsDifferByTheirBits) {
  GraphBuilder g;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(g.constant(0.0).id(), g.constant(-0.0).id());
  EXPECT_TRUE(std::signbit(g.constant(-0.0).node().attr.value));
  EXPECT_EQ(g.constant(nan).id(), g.constant(-nan).id());
}

TEST(Builder, OneNameOneOperand) {
  GraphBuilder g;
  g.operand("bias", axes::n);
  EXPECT_THAT(error_of([&] { g.operand("bias", axes::m); }), HasSubstr("operand bias[m] was used before as bias[n]"));
  EXPECT_THAT(error_of([&] { g.operand("bias", axes::n, {.storage = DType::bf16, .default_value = {}}); }),
              HasSubstr("was declared bf16 after its first use"));
  g.operand("alpha", {}, {.storage = DType::f16, .default_value = 1});
  EXPECT_NO_THROW(g.operand("alpha"));
  EXPECT_NO_THROW(g.operand("alpha", {}, {.storage = DType::f16, .default_value = 1}));
  EXPECT_THAT(error_of([&] { g.operand("alpha", {}, {.storage = DType::f32, .default_value = {}}); }),
              HasSubstr("as f16"));
  EXPECT_THAT(error_of([&] { g.operand("alpha", {}, {.storage = {}, .default_value = 2}); }),
              HasSubstr("default 2 after"));
}

TEST(Builder, OperandsThatAreNone) {
  GraphBuilder g;
  const auto storage = [](DType t) { return OperandOptions{.storage = t, .default_value = {}}; };
  EXPECT_THAT(error_of([&] {
                g.operand("x", {RowAxis::m, ColAxis::g, 4});
              }),
              HasSubstr("operand x was given axes [m,g4]"));
  EXPECT_THAT(error_of([&] { g.operand("x", axes::n, storage(DType::f8e4m3)); }), HasSubstr("fp8 types are reserved"));
  EXPECT_THAT(error_of([&] { g.operand("x", axes::mn, {.storage = {}, .default_value = 1}); }),
              HasSubstr("only scalars and vectors"));
  EXPECT_THAT(error_of([&] { g.operand("x", axes::n, {.strided = true}); }), HasSubstr("only operands with rows"));
  EXPECT_THAT(error_of([&] { g.operand("x", axes::bn, {.rows = RowCoordinates::h}); }),
              HasSubstr("coordinates of rows"));
  EXPECT_THAT(error_of([&] { g.operand("x", {}, {.storage = DType::i32, .default_value = 0.5}); }),
              HasSubstr("not a value of i32"));
  EXPECT_THAT(error_of([&] { g.operand("x", {}, {.storage = DType::boolean, .default_value = 2}); }),
              HasSubstr("not a value of bool"));
  EXPECT_THAT(error_of([&] { g.operand("relu"); }), HasSubstr("choose another"));
  EXPECT_THAT(error_of([&] { g.operand("a b"); }), HasSubstr("is not an identifier"));
  // None of them left a trace
  EXPECT_EQ(g.operand("x", axes::n, storage(DType::bf16)).id(), 0u);
}

TEST(Builder, OperandsAreComputedInTheTypeThatHoldsThem) {
  GraphBuilder g;
  const auto dtype = [&](const std::string& name, std::optional<DType> t) {
    return g.operand(name, {}, {.storage = t, .default_value = {}}).dtype();
  };
  EXPECT_EQ(dtype("a", {}), DType::f32);
  EXPECT_EQ(dtype("b", DType::bf16), DType::f32);
  EXPECT_EQ(dtype("c", DType::tf32), DType::f32);
  EXPECT_EQ(dtype("d", DType::f64), DType::f64);
  EXPECT_EQ(dtype("e", DType::i32), DType::i32);
  EXPECT_EQ(dtype("f", DType::boolean), DType::boolean);
}

TEST(Builder, ValuesOfAnotherBuilder) {
  GraphBuilder g, other;
  EXPECT_THAT(error_of([&] { g.acc() + other.acc(); }), HasSubstr("another GraphBuilder"));
  EXPECT_THAT(error_of([&] { g.store(other.acc(), DType::f32); }), HasSubstr("another GraphBuilder"));
  EXPECT_THAT(error_of([&] { layer_norm(g.acc(), {.scale = other.acc(), .shift = {}}); }),
              HasSubstr("another GraphBuilder"));
}

TEST(Builder, NamesOfStores) {
  GraphBuilder g;
  g.store(g.acc() + 1, DType::f32);
  g.store((g.acc() + 2).named("h"), DType::f32);
  g.store(g.operand("bias", axes::n), DType::f32);
  g.store(g.acc(), DType::bf16, "d");
  const Graph graph = g.build();
  std::vector<std::string> names;
  for (const Store& s : graph.stores) names.push_back(s.name);
  EXPECT_THAT(names, testing::ElementsAre("out0", "h", "bias", "d"));
  EXPECT_THAT(error_of([&] { g.store(g.acc(), DType::f32, "d"); }), HasSubstr("store d is written twice"));
  EXPECT_THAT(error_of([&] { g.store(g.acc(), DType::f32, "1"); }), HasSubstr("is not an identifier"));
  EXPECT_THAT(error_of([&] { g.store(g.acc(), DType::f8e5m2, "e"); }), HasSubstr("fp8 types are reserved"));
  EXPECT_EQ(g.build().stores.size(), 4u);
}

TEST(Builder, AGraphThatDoesNothing) {
  GraphBuilder g;
  g.acc();
  EXPECT_THAT(error_of([&] { g.build(); }), Says("stores nothing … add a store"));
}

TEST(Builder, Functions) {
  GraphBuilder g;
  g.define(function("warp", 2));
  EXPECT_THAT(error_of([&] { g.define(function("warp", 1)); }), HasSubstr("function warp is defined twice"));
  EXPECT_THAT(error_of([&] { g.define(function("max", 2)); }), HasSubstr("choose another"));
  EXPECT_THAT(error_of([&] { g.define(function("big", 17)); }), HasSubstr("arity 17; expected 0 to 16"));
  EXPECT_THAT(error_of([&] { g.define({.name = "empty", .cuda_source = {}, .cpu = {}}); }),
              HasSubstr("neither a CPU callable nor CUDA text"));
  EXPECT_THAT(error_of([&] { g.operand("warp", axes::n); }), Says("operand warp … a function"));
  g.operand("bias", axes::n);
  EXPECT_THAT(error_of([&] { g.define(function("bias", 1)); }), Says("function bias … an operand"));
  EXPECT_THAT(error_of([&] { g.call("wrap", {}); }), HasSubstr("function wrap is not defined"));
  EXPECT_THAT(error_of([&] { g.call("warp", {g.acc()}); }), HasSubstr("warp takes 2 inputs and was given 1"));
}

TEST(Builder, CallsThatReturnNothing) {
  GraphBuilder g;
  g.define(function("probe", 1, false));
  EXPECT_FALSE(g.call("probe", {g.acc()}));
  Attributes attr;
  attr.name = "probe";
  const Value nothing = g.node(Op::call, {g.acc()}, attr);  // the generic way in makes an effect, too
  EXPECT_THAT(error_of([&] { nothing + 1; }), Says("add … probe, which returns nothing"));
  EXPECT_THAT(error_of([&] { g.store(nothing, DType::f32); }), HasSubstr("store of probe, which returns nothing"));
  EXPECT_EQ(g.build().effects.size(), 2u);
}

TEST(Builder, GenericNodes) {
  GraphBuilder g;
  EXPECT_THAT(error_of([&] { g.node(Op::acc, {}); }), HasSubstr("acc is a leaf"));
  EXPECT_THAT(error_of([&] { g.node(Op::call, {}); }), HasSubstr("is not defined"));
  EXPECT_THAT(error_of([&] { g.node(Op::cast, {g.acc()}); }), HasSubstr("cast needs a dtype"));
  EXPECT_THAT(error_of([&] { g.node(Op::sum, {g.acc()}); }), HasSubstr("sum runs over nothing"));
  Attributes attr;
  attr.eps = 1;
  EXPECT_THAT(error_of([&] { g.node(Op::relu, {g.acc()}, attr); }), Says("an attribute … not read"));
}

TEST(Builder, ARefusedNodeLeavesNoTrace) {
  GraphBuilder g;
  const Value h = g.acc();
  EXPECT_THROW(clamp(h, 2, 1), UserError);
  EXPECT_THROW(logical_not(h), UserError);
  EXPECT_THROW(h.named("no name"), UserError);
  EXPECT_THROW(layer_norm(h, {.groups = 2, .scale = {}, .shift = {}}), UserError);
  EXPECT_THROW(rms_norm(h, {.scale = {}, .shift = h}), UserError);
  g.store(h, DType::f32, "y");
  EXPECT_EQ(g.build().nodes.size(), 1u);
}

TEST(Builder, ManyLeavesAndStores) {
  GraphBuilder g;
  Value sum = g.acc();
  for (int i = 0; i < 30000; ++i) {
    sum = fma(g.constant(i), g.operand("x" + std::to_string(i), axes::n), sum);
    g.store(sum, DType::f32, "y" + std::to_string(i));
  }
  EXPECT_EQ(g.build().nodes.size(), 90001u);
}

}  // namespace
}  // namespace unisono
