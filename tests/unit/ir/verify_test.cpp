#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/graph.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using testing::HasSubstr;

const std::vector<UserFunction>& functions() {
  static const std::vector<UserFunction> f{
      {.name = "probe", .arity = 1, .returns_value = false, .cuda_source = "x", .cpu = {}},
      {.name = "warp", .arity = 1, .returns_value = true, .cuda_source = "x", .cpu = {}}};
  return f;
}

constexpr std::string_view text =
    "operand alpha : f16 = 0.5\n"
    "h = acc * alpha + bias[n]\n"
    "probe(h)\n"
    "store warp(h + index(m)) as y\n"
    "store sum(h, over=m) as s\n";

// What the verifier says of the graph above after `change`
std::string verdict(const std::function<void(Graph&)>& change) {
  Graph g = parse(text, functions());
  change(g);
  try {
    verify(g);
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

ValueId find(const Graph& g, Op op) {
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (g[id].op == op) return id;
  ADD_FAILURE() << "no " << to_string(op);
  return 0;
}

Node& node(Graph& g, Op op) { return g.nodes[find(g, op)]; }

TEST(Verify, AGraphAsBuilt) {
  EXPECT_EQ(verdict([](Graph&) {}), "fine");
}

TEST(Verify, OrderAndArity) {
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::mul).inputs[0] = find(g, Op::mul); }), HasSubstr("before it"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::mul).inputs[0] = 1000; }), HasSubstr("before it"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::mul).inputs.pop_back(); }),
              HasSubstr("mul takes 2 inputs and was given 1"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::acc).inputs.push_back(0); }), HasSubstr("leaf has no inputs"));
}

TEST(Verify, Types) {
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::mul).axes = axes::n; }), HasSubstr("has axes [n]; expected [m,n]"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::mul).dtype = DType::bf16; }),
              HasSubstr("has dtype bf16; expected f32"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::acc).axes = axes::m; }), HasSubstr("has axes [m]; expected [m,n]"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::acc).dtype = DType::f16; }), HasSubstr("has dtype f16"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::index).axes = axes::n; }), HasSubstr("has axes [n]; expected [m]"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::operand).dtype = DType::f16; }),
              HasSubstr("has dtype f16; expected f32"));
  EXPECT_THAT(verdict([](Graph& g) {
                node(g, Op::operand).axes = {RowAxis::m, ColAxis::g, 2};
              }),
              HasSubstr("operand cannot have axes [m,g2]"));
}

TEST(Verify, Attributes) {
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::mul).attr.eps = 1; }), Says("an attribute … not read"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::acc).attr.name = "x"; }), Says("an attribute … not read"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::sum).attr.domain = {}; }), HasSubstr("runs over nothing"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::index).attr.coordinate = static_cast<Coordinate>(9); }),
              HasSubstr("coordinate"));
}

TEST(Verify, Operands) {
  const auto alpha = [](Graph& g) -> Attributes& { return node(g, Op::operand).attr; };
  EXPECT_THAT(verdict([&](Graph& g) { alpha(g).name = "bias"; }), HasSubstr("operand bias"));
  EXPECT_THAT(verdict([&](Graph& g) { alpha(g).name = "warp"; }), HasSubstr("warp is a function, too"));
  EXPECT_THAT(verdict([&](Graph& g) { alpha(g).name = "a b"; }), HasSubstr("is not an identifier"));
  EXPECT_THAT(verdict([&](Graph& g) { alpha(g).storage = DType::f8e4m3; }), HasSubstr("fp8 types are reserved"));
  EXPECT_THAT(verdict([&](Graph& g) { alpha(g).storage = DType::i32; }), HasSubstr("expected i32"));
  EXPECT_THAT(verdict([&](Graph& g) { node(g, Op::operand).axes = axes::mn; }),
              HasSubstr("an operand [m,n] has no default"));
  EXPECT_THAT(verdict([&](Graph& g) { alpha(g).rows = RowCoordinates::hw; }), HasSubstr("has no coordinates"));
  EXPECT_THAT(verdict([&](Graph& g) { alpha(g).strided = true; }), HasSubstr("is not strided"));
}

TEST(Verify, Stores) {
  EXPECT_THAT(verdict([](Graph& g) { g.stores[0].value = 99; }), HasSubstr("store y has no value"));
  EXPECT_THAT(verdict([](Graph& g) { g.stores[1].name = "y"; }), HasSubstr("store y"));
  EXPECT_THAT(verdict([](Graph& g) { g.stores[1].name = ""; }), HasSubstr("is not an identifier"));
  EXPECT_THAT(verdict([](Graph& g) { g.stores[1].dtype = DType::f8e5m2; }), HasSubstr("fp8 types are reserved"));
  EXPECT_THAT(verdict([](Graph& g) { g.stores[1].value = g.effects[0]; }), HasSubstr("probe returns nothing"));
}

TEST(Verify, CallsAndEffects) {
  EXPECT_THAT(verdict([](Graph& g) { g.functions.erase("warp"); }), HasSubstr("calls warp, which is not defined"));
  EXPECT_THAT(verdict([](Graph& g) { g.nodes[g.effects[0]].attr.name = "wrap"; }), HasSubstr("calls wrap"));
  EXPECT_THAT(verdict([](Graph& g) { g.nodes[g.effects[0]].inputs.clear(); }),
              HasSubstr("probe takes 1 input and was given 0"));
  EXPECT_THAT(verdict([](Graph& g) { g.effects.clear(); }), Says("returns nothing … not an effect"));
  EXPECT_THAT(verdict([](Graph& g) { g.effects.push_back(g.effects[0]); }), HasSubstr("is an effect twice"));
  EXPECT_THAT(verdict([](Graph& g) { g.effects[0] = g.stores[0].value; }), Says("not a call … returns"));
  EXPECT_THAT(verdict([](Graph& g) { g.effects[0] = 99; }), HasSubstr("effect 99 is not a call"));
  EXPECT_THAT(verdict([](Graph& g) { g.functions["other"] = g.functions["warp"]; }), HasSubstr("under another name"));
  EXPECT_THAT(verdict([](Graph& g) { g.functions["warp"] = nullptr; }), HasSubstr("under another name"));
  EXPECT_THAT(verdict([](Graph& g) { node(g, Op::sum).inputs[0] = g.effects[0]; }), HasSubstr("which returns nothing"));
}

}  // namespace
}  // namespace unisono
