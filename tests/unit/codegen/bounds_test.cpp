#include "codegen/bounds.hpp"

#include <gtest/gtest.h>

#include "codegen/expression.hpp"
#include "fixture.hpp"
#include "ir/op_table.hpp"
#include "support/golden.hpp"
#include "support/sources.hpp"

namespace unisono::codegen {
namespace {

Node node_of(Op op) {
  Node node;
  node.op = op;
  node.attr.alpha = 1;
  return node;
}

// What the kernels compute of values x
std::string text_of(Op op, bool accurate) {
  Graph g;
  g.nodes = {node_of(Op::acc), node_of(op)};
  const auto arity = static_cast<std::size_t>(ir::info(op).arity);
  g.nodes[1].inputs.assign(arity, 0);
  return expression(g, 1, std::vector<std::string>(arity, "x"), accurate);
}

// Whatever has a second, accurate form differs from it, and the documentation says by how much: a function of its own
// in math.cuh, and a text that calls one of those
TEST(FastBounds, EveryOperationOfTwoFormsHasOne) {
  const std::string doc = test::text_of(test::source_path("docs/numerics.md"));
  int with_bound = 0;
  for (int i = 0; i < op_count; ++i) {
    const Op op = static_cast<Op>(i);
    if (!ir::is_elementwise(op) || op == Op::cast || op == Op::one_hot) continue;
    const std::string name(to_string(op));
    const bool two_forms = text_of(op, true) != text_of(op, false);
    EXPECT_EQ(two_forms, !(fast_bound(node_of(op)) == FastBound{})) << name;
    if (!two_forms) continue;
    ++with_bound;
    EXPECT_NE(doc.find("| " + name + " |"), doc.npos) << name << " is missing from the table of fast forms";
  }
  EXPECT_GE(with_bound, 18);
}

}  // namespace
}  // namespace unisono::codegen
