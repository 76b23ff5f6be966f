#include "support/random_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "reference/reference.hpp"
#include "unisono/text.hpp"

namespace unisono::test {
namespace {

TEST(RandomGraph, TheSameSeedGivesTheSameCase) {
  for (const std::uint64_t seed : {1u, 2u, 77u, 1234567u}) {
    const RandomCase x = random_case(seed), y = random_case(seed);
    EXPECT_EQ(print(x.graph), print(y.graph));
    EXPECT_EQ(to_string(x.contraction), to_string(y.contraction));
    EXPECT_TRUE(std::equal(x.buffers.begin(), x.buffers.end(), y.buffers.begin(), y.buffers.end(),
                           [](const Buffer& a, const Buffer& b) { return a.bytes == b.bytes; }));
  }
  EXPECT_NE(print(random_case(1).graph), print(random_case(2).graph));
}

TEST(RandomGraph, EveryOperationOccurs) {
  std::set<Op> seen{Op::acc1};  // of dual products, which are not drawn
  for (std::uint64_t seed = 1; seed <= 500; ++seed)
    for (const Node& x : random_case(seed).graph.nodes) seen.insert(x.op);
  for (int i = 0; i < op_count; ++i) EXPECT_TRUE(seen.contains(static_cast<Op>(i))) << to_string(static_cast<Op>(i));
}

TEST(RandomGraph, EveryCaseIsLegalAndComplete) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomCase c = random_case(seed);
    verify(c.graph);
    const auto results = reference::run(c.contraction, c.graph, c.arguments);
    EXPECT_EQ(results.size(), c.graph.stores.size());
    for (const Store& s : c.graph.stores) {
      const TensorView& output = c.arguments.outputs.at(s.name);
      EXPECT_EQ(output.dtype, s.dtype);
      EXPECT_EQ(output.shape, reference::shape_of(c.graph[s.value].axes, c.contraction));
    }
  }
}

TEST(RandomGraph, MostValuesStayInRange) {
  std::int64_t elements = 0, wild = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomCase c = random_case(seed);
    for (const auto& [name, values] : reference::run(c.contraction, c.graph, c.arguments))
      for (const double v : values.value) {
        ++elements;
        wild += !(std::abs(v) < 1e6) ? 1 : 0;
      }
  }
  EXPECT_LT(wild * 50, elements);
}

TEST(RandomGraph, OptionsAreHeeded) {
  RandomOptions o;
  o.reductions = o.normalisations = o.functions = o.effects = o.f64 = o.f16 = o.short_storage = o.coordinates = false;
  o.convolutions = false;
  o.short_cast = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomCase c = random_case(seed, o);
    EXPECT_TRUE(std::holds_alternative<Gemm>(c.contraction));
    EXPECT_TRUE(c.graph.effects.empty());
    for (const Node& x : c.graph.nodes) {
      EXPECT_FALSE(x.op >= Op::group_norm) << to_string(x.op);
      EXPECT_NE(x.dtype, DType::f16);
    }
    for (const auto& [name, dtype] : c.storage) EXPECT_TRUE(dtype == DType::f32 || dtype == DType::i32);
  }
}

TEST(RandomGraph, OutputsAreNaNBeforeARun) {
  RandomCase c = random_case(3);
  for (const auto& [name, output] : c.arguments.outputs) std::memset(output.data, 0, size_of(output.dtype));
  poison_outputs(c);
  for (const auto& [name, output] : c.arguments.outputs) {
    const auto* bytes = static_cast<const unsigned char*>(output.data);
    const auto size = static_cast<std::size_t>(element_count(output.shape)) * size_of(output.dtype);
    EXPECT_TRUE(std::all_of(bytes, bytes + size, [](unsigned char b) { return b == 0xff; }));
  }
}

}  // namespace
}  // namespace unisono::test
