// GraphBuilder when memory runs out: each call either happens as a whole or leaves the graph as it was. A binary of its
// own, because it replaces operator new.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "unisono/builder.hpp"

namespace {
long allocations_left = -1;  // -1: no limit
}  // namespace

void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace unisono {
namespace {

UserFunction function(const std::string& name) {
  return {.name = name, .arity = 1, .returns_value = false, .cuda_source = std::string(100, 'x'), .cpu = {}};
}

void prepare(GraphBuilder& g) {
  g.define(function("a_function_that_returns_nothing"));
  g.store(g.acc() + g.operand("an_operand_with_a_long_name", axes::n), DType::f32, "an_output_with_a_long_name");
}

// Runs `call` with 0, 1, 2, … allocations allowed, until it succeeds
void starve(const std::function<void(GraphBuilder&)>& call) {
  for (long allowed = 0;; ++allowed) {
    GraphBuilder g;
    prepare(g);
    const Graph before = g.build();
    bool starved = false;
    allocations_left = allowed;
    try {
      call(g);
    } catch (const std::bad_alloc&) {
      starved = true;
    }
    allocations_left = -1;
    if (!starved) {
      EXPECT_GT(allowed, 0) << "the call allocates nothing: the test tests nothing";
      return;
    }
    const Graph after = g.build();
    ASSERT_EQ(after.nodes.size(), before.nodes.size()) << allowed;
    ASSERT_EQ(after.stores.size(), before.stores.size()) << allowed;
    ASSERT_EQ(after.effects.size(), before.effects.size()) << allowed;
    ASSERT_EQ(after.functions.size(), before.functions.size()) << allowed;
    ASSERT_NO_THROW(call(g)) << "after a failure at allocation " << allowed;
    ASSERT_NO_THROW(g.build()) << allowed;
  }
}

TEST(Allocation, Leaves) {
  starve([](GraphBuilder& g) { g.constant(0.5); });
  starve([](GraphBuilder& g) { g.index(Coordinate::h); });
  starve([](GraphBuilder& g) { g.operand("another_operand_with_a_long_name", axes::m); });
}

TEST(Allocation, Nodes) {
  const auto attributes = [] {
    Attributes a;
    a.name = "a_function_that_returns_nothing";
    return a;
  };
  starve([](GraphBuilder& g) { exp(g.acc()); });
  starve([&](GraphBuilder& g) { g.node(Op::call, {g.acc()}, attributes()); });
  starve([](GraphBuilder& g) { g.call("a_function_that_returns_nothing", {g.acc()}); });
}

TEST(Allocation, StoresAndFunctions) {
  starve([](GraphBuilder& g) { g.store(g.acc(), DType::bf16, "another_output_with_a_long_name"); });
  starve([](GraphBuilder& g) { g.define(function("another_function_with_a_long_name")); });
}

TEST(Allocation, Names) {
  starve([](GraphBuilder& g) { g.acc().named("a_value_with_a_name_that_is_long"); });
}

}  // namespace
}  // namespace unisono
