#include "codegen/bounds.hpp"

#include <gtest/gtest.h>

#include "fixture.hpp"
#include "ir/op_table.hpp"
#include "support/golden.hpp"

namespace unisono::codegen {
namespace {

Node node_of(Op op) {
  Node node;
  node.op = op;
  node.attr.alpha = 1;
  return node;
}

// Whatever has a second, accurate form differs from it, and the documentation says by how much
TEST(FastBounds, EveryFunctionOfTwoFormsHasOne) {
  const std::string header = test::text_of(std::string(UNISONO_KERNELS_DIR) + "/unisono/epilogue/math.cuh");
  const std::string accurate = header.substr(header.find("namespace accurate"));
  const std::string doc = test::text_of(UNISONO_NUMERICS_DOC);
  int with_bound = 0;
  for (int i = 0; i < op_count; ++i) {
    const Op op = static_cast<Op>(i);
    const std::string name(to_string(op));
    const bool two_forms = accurate.find(" " + name + "(float") != accurate.npos;
    EXPECT_EQ(two_forms, !(fast_bound(node_of(op)) == FastBound{})) << name;
    if (!two_forms) continue;
    ++with_bound;
    EXPECT_NE(doc.find("| " + name + " |"), doc.npos) << name << " is missing from the table of fast forms";
  }
  EXPECT_EQ(with_bound, 18);
}

}  // namespace
}  // namespace unisono::codegen
