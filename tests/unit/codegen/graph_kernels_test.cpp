// Kernels for graphs that stand by themselves. What they compute is tested on the emulated GPU:
// tests/gpu/network_test.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/graph_kernels.hpp"
#include "passes/passes.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {
namespace {

using testing::HasSubstr;
using Kind = GraphTensor::Kind;

std::vector<GraphKernel> kernels_of(const char* text, const GraphStorage& storage = {}) {
  return graph_kernels(passes::run_pipeline(parse(text)), storage).value();
}

using Part = GraphKernel::Part;

std::vector<Kind> kinds_of(const GraphKernel& kernel) {
  std::vector<Kind> kinds;
  for (const GraphTensor& t : kernel.tensors) kinds.push_back(t.kind);
  return kinds;
}

TEST(GraphKernels, StatisticsOfOneInputShareTheirKernels) {
  const auto kernels = kernels_of("y = silu(group_norm(acc, groups=4, scale=gamma[n])); store y : bf16");
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].part, Part::partials);
  EXPECT_EQ(kernels[0].domain.groups, 4);
  EXPECT_EQ(kernels[0].state_floats, 3);
  EXPECT_THAT(kinds_of(kernels[0]), testing::ElementsAre(Kind::accumulator, Kind::partials));
  EXPECT_THAT(kernels[0].source, HasSubstr("plain::partials<plain::MomentState, Values>(p, 4u, "));
  EXPECT_EQ(kernels[1].part, Part::join);
  EXPECT_THAT(kinds_of(kernels[1]), testing::ElementsAre(Kind::partials, Kind::reduction, Kind::reduction));
  EXPECT_THAT(kernels[1].source, HasSubstr("state.of.m2 / state.of.count"));
  EXPECT_EQ(kernels[2].part, Part::elements);
  EXPECT_THAT(kernels[2].source, HasSubstr("image * p.tensors"));
  EXPECT_THAT(kinds_of(kernels[2]), testing::UnorderedElementsAre(Kind::accumulator, Kind::reduction, Kind::reduction,
                                                                  Kind::operand, Kind::store));
}

TEST(GraphKernels, StatisticsOfSeveralKindsHaveKernelsEach) {
  const auto kernels = kernels_of("y = acc * sum(acc, over=m) - max(acc, over=m); store y : bf16");
  ASSERT_EQ(kernels.size(), 5u);
  EXPECT_THAT(kernels[0].source, HasSubstr("partials<plain::Folded<plain::FoldSum>, Values>(p, p.columns, "));
  EXPECT_THAT(kernels[1].source, HasSubstr("join_partials<plain::Folded<plain::FoldSum>, false>"));
  EXPECT_THAT(kernels[2].source, HasSubstr("plain::FoldLargest"));
  EXPECT_EQ(kernels[2].state_floats, 1);
}

// Softmax, a layer norm: one kernel, whose threads keep what they reduce
TEST(GraphKernels, ReductionsAlongRowsAreInTheKernelOfTheStores) {
  const auto softmax = kernels_of("y = softmax(acc, over=n); store y : bf16");
  ASSERT_EQ(softmax.size(), 1u);
  EXPECT_EQ(softmax[0].part, Part::rows);
  EXPECT_THAT(softmax[0].source, HasSubstr("plain::rows<Values, Values::Pass0, Values::Pass1>(p);"));
  EXPECT_LT(softmax[0].source.find("FoldLargest"), softmax[0].source.find("FoldSum"));
  const auto norm = kernels_of("y = layer_norm(acc, scale=g[n], shift=b[n]); store y : bf16");
  ASSERT_EQ(norm.size(), 1u);
  EXPECT_THAT(norm[0].source, HasSubstr("plain::rows<Values, Values::Pass0>(p);"));  // mean and variance by one state
  EXPECT_THAT(kinds_of(norm[0]),
              testing::UnorderedElementsAre(Kind::accumulator, Kind::operand, Kind::operand, Kind::store));
}

// Beside others, or in groups of columns, they have kernels of their own
TEST(GraphKernels, OtherReductionsWithinRowsAreApart) {
  const auto kernels = kernels_of("y = softmax(acc, over=n) + sum(acc, over=m); store y : bf16");
  ASSERT_EQ(kernels.size(), 5u);
  EXPECT_THAT(kernels[0].source + kernels[1].source + kernels[2].source + kernels[3].source,
              HasSubstr("plain::Largest()"));
}

// Such results lie by row, so that a thread cannot load them once for an image
TEST(GraphKernels, ReductionsWithinRowsOfVectorsAreLoadedByRow) {
  const auto kernels = kernels_of("y = acc + sum(w[n] * u[n], over=n) * w[n] + sum(acc, over=m); store y : bf16");
  ASSERT_EQ(kernels.size(), 4u);
  const std::string& source = kernels[3].source;
  const auto fix = source.find("void fix("), element = source.find("void element("), load = source.find("row * p.");
  ASSERT_NE(fix, std::string::npos);
  ASSERT_NE(load, std::string::npos);
  EXPECT_GT(load, element) << source;
}

TEST(GraphKernels, StorageDecidesWhatIsLoaded) {
  const char* text = "y = acc + x[m,n] * s[n]; store y : f16";
  const auto kernels =
      kernels_of(text, {.element = DType::f16, .accumulator = DType::f32, .operands = {{"x", DType::f16}}});
  ASSERT_EQ(kernels.size(), 1u);
  for (const char* words : {"load_octet<float>", "load_octet<F16>", "element<float>", "store_octet<F16>"})
    EXPECT_THAT(kernels[0].source, HasSubstr(words));
  EXPECT_EQ(
      kernels[0].source,
      kernels_of(text, {.element = DType::f16, .accumulator = DType::f32, .operands = {{"x", DType::f16}}})[0].source);
}

// Values may be called what the generated functions call theirs
TEST(GraphKernels, StoresAreOfTheElementOrF32) {
  const auto kernels =
      kernels_of("y = acc * 2; z = acc + 1; store y; store z", {.element = DType::f16, .stores_in_f32 = {"z"}});
  EXPECT_THAT(kernels[0].source, HasSubstr("store_octet<F16>(p.tensors[1], row, channel, tensor[0])"));
  EXPECT_THAT(kernels[0].source, HasSubstr("store_octet<float>(p.tensors[2], row, channel, tensor[1])"));
}

TEST(GraphKernels, NamesOfValues) {
  const auto kernels = kernels_of("image = acc * row[n] + channel[n]; store image : bf16");
  EXPECT_THAT(kernels[0].source, HasSubstr("const float row_2 = fixed["));
}

TEST(GraphKernels, RefusesWhatTheyLack) {
  EXPECT_THROW(kernels_of("y = acc + cast(index(h), f32); store y : bf16"), Unsupported);
  EXPECT_THROW(kernels_of("y = acc * x[n]; store y : bf16", {.operands = {{"x", DType::i32}}}), Unsupported);
}

TEST(PlainKernels, OneSourceWithAllOfThem) {
  const std::string source = plain_source(DType::f16);
  for (const auto kernel :
       {PlainKernel::enter, PlainKernel::leave, PlainKernel::pool_images, PlainKernel::join_moments})
    EXPECT_THAT(source, HasSubstr(plain_entry(kernel) + "(const __grid_constant__ unisono::"));
  EXPECT_THAT(source, HasSubstr("pool_images<F16>"));
}

}  // namespace
}  // namespace unisono::codegen
