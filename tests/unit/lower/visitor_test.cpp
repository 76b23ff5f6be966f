// Epilogues for kernels of somebody else's: what the header says, and what is refused. tests/gpu/own_kernel_test runs
// them.

#include "unisono/visitor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using testing::HasSubstr;
using testing::Not;

const Gemm product{.m = 37, .n = 96, .k = 80, .dtype_a = DType::bf16, .dtype_b = DType::bf16};

std::string source_of(const char* text, const VisitorOptions& options = {.name = "own"}) {
  return visitor_source(product, parse(text), options);
}

std::string refusal_of(const char* text) {
  try {
    source_of(text);
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "not refused";
}

TEST(VisitorSource, NamesItsStoresAndItsOperands) {
  const std::string text =
      source_of("h = acc + bias[n]\nstore h as aux : bf16\nstore gelu(h) * gain[] + r[m,n] as y : bf16");
  EXPECT_THAT(text, HasSubstr("// main: y [m,n], bf16\n// side: aux [m,n], bf16\n"));
  EXPECT_THAT(text, HasSubstr("#include <unisono/epilogue/element.cuh>"));
  EXPECT_THAT(text, HasSubstr("namespace unisono::own {"));
  EXPECT_THAT(text, HasSubstr("const void* bias;  // f32 [n]"));
  EXPECT_THAT(text, HasSubstr("alignas(8) float gain;"));
  EXPECT_THAT(text, HasSubstr("using Epilogue = PointwiseEpilogue<Visitor>;"));
}

TEST(VisitorSource, OptionsAreThoseOfCompile) {
  EXPECT_THAT(source_of("store acc + r[m,n] as y : bf16", {.storage = {{"r", DType::f16}}}),
              HasSubstr("const void* r;  // f16 [m,n]"));
  EXPECT_THAT(source_of("store acc * gain[] as y : bf16", {.device_scalars = {"gain"}}),
              HasSubstr("const void* gain;"));
  EXPECT_THAT(source_of("store gelu(acc) as y : bf16", {.accurate = true}), HasSubstr("accurate::gelu"));
  EXPECT_THAT(source_of("store gelu(acc) as y : bf16"), Not(HasSubstr("accurate::gelu")));
}

// Attributes that are values are members, as other scalars
TEST(VisitorSource, AttributeValuesAreMembersOfParams) {
  const char* text = "store clamp(leaky_relu(acc, slope=slope[]), upper=limit[]) as y : bf16";
  const std::string by_value = source_of(text);
  EXPECT_THAT(by_value, HasSubstr("alignas(8) float slope;"));
  EXPECT_THAT(by_value, HasSubstr("alignas(8) float limit;"));
  EXPECT_THAT(source_of(text, {.device_scalars = {"slope"}}), HasSubstr("const void* slope;"));
}

// Results of other types are the visitor's own
TEST(VisitorSource, OtherStoresAreMembersOfParams) {
  const std::string text = source_of("store acc * row[m] as y : f32");
  EXPECT_THAT(text, HasSubstr("void* y_memory;  // f32 [m,n]"));
  EXPECT_THAT(text, Not(HasSubstr("// main")));
  EXPECT_THAT(text, HasSubstr("using Epilogue = GeneralElementEpilogue<Visitor>;"));
}

TEST(VisitorSource, WhatNeedsOtherElementsIsRefused) {
  for (const char* text :
       {"store group_norm(acc, groups=8) as y : bf16", "store softmax(acc, over=n) as y : bf16",
        "store acc as y : bf16\nstore sum(acc, over=(m,n)) as s : f32", "store layer_norm(acc) as y : bf16"})
    EXPECT_THAT(refusal_of(text), HasSubstr("element at a time")) << text;
}

TEST(VisitorSource, NamesAreChecked) {
  for (const char* name : {"", "1st", "a b", "math", "Visitor"})
    EXPECT_THROW(source_of("store acc as y : bf16", {.name = name}), UserError) << name;
}

}  // namespace
}  // namespace unisono
