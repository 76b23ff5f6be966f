/// Inputs and outputs of 16 bits: what is left of their casts where tensors are stored in that type.

#include "network/short_borders.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cases.hpp"
#include "network/regions.hpp"

namespace unisono {
namespace {

struct ShortBorders : testing::Test {
  NetworkBuilder net;
  NetworkValue cast(NetworkValue x, DType to) { return net.apply(operators::Map{MapOp::cast, to}, {x}); }
  Network bf16() { return network::with_short_borders(net.build(), DType::bf16); }
  static std::ptrdiff_t casts(const Network& n) {
    return std::ranges::count_if(n.operators, [](const Operator& o) {
      const auto* const map = std::get_if<operators::Map>(&o.kind);
      return map != nullptr && map->op == MapOp::cast;
    });
  }
};

TEST_F(ShortBorders, CastsOfAnInputAndAnOutputAreNoOperators) {
  const NetworkValue x = cast(net.input("x", {2, 3, 8, 8}, DType::bf16), DType::f32);
  net.output(cast(elementwise(Op::relu, {elementwise(Op::silu, {x})}), DType::bf16), "y");
  const Network n = bf16();
  EXPECT_EQ(casts(n), 0) << to_string(n);
  EXPECT_EQ(n[n.inputs[0]].dtype, DType::f32);
  EXPECT_EQ(n[n.outputs[0]].dtype, DType::f32);
  EXPECT_EQ(n[n.inputs[0]].name, "x");
  EXPECT_EQ(n[n.outputs[0]].name, "y");
  EXPECT_EQ(n.operators.back().output, n.outputs[0]);
  EXPECT_EQ(n.operators.front().inputs, n.inputs);
}

TEST_F(ShortBorders, WhatIsReadInTwoTypesKeepsItsCast) {
  const NetworkValue x = net.input("x", {4, 8}, DType::bf16);
  net.output(elementwise(Op::relu, {cast(x, DType::f32)}), "y");
  net.output(cast(cast(x, DType::i32), DType::f32), "z");
  EXPECT_EQ(casts(bf16()), 3);
}

TEST_F(ShortBorders, ATensorThatIsAnInputAndAnOutputKeepsOne) {
  net.output(cast(cast(net.input("x", {4, 8}, DType::bf16), DType::f32), DType::bf16), "y");
  const Network n = bf16();
  EXPECT_EQ(casts(n), 1);
  EXPECT_EQ(n.operators.back().inputs, n.inputs);
  EXPECT_EQ(n[n.outputs[0]].dtype, DType::bf16);
}

TEST_F(ShortBorders, AnotherTypeOf16BitsIsConverted) {
  const NetworkValue x = cast(net.input("x", {4, 8}, DType::f16), DType::f32);
  net.output(cast(elementwise(Op::relu, {x}), DType::f16), "y");
  EXPECT_EQ(casts(bf16()), 2);
}

TEST_F(ShortBorders, OneTensorInTwoOutputsIsStoredOnceMore) {
  const NetworkValue y = elementwise(Op::relu, {cast(net.input("x", {4, 8}, DType::bf16), DType::f32)});
  net.output(cast(y, DType::bf16), "y");
  net.output(cast(y, DType::bf16), "z");
  const Network n = bf16();
  EXPECT_EQ(casts(n), 1) << to_string(n);
  EXPECT_EQ(n[n.outputs[0]].name, "y");
  EXPECT_EQ(n[n.outputs[1]].dtype, DType::bf16);
}

}  // namespace
}  // namespace unisono
