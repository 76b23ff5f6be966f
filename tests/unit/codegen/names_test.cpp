#include "codegen/names.hpp"

#include <gtest/gtest.h>

#include <set>

#include "unisono/builder.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {
namespace {

TEST(Names, AreDistinctAndLegal) {
  const Graph g = parse(
      "int = acc + column[n] + float[n] + threadIdx[n] + __x__[n] + NULL[n] + a__b[n] + a_b[n] + _[n]\n"
      "norm = int * 2\nnorm_ = norm * 3\nv2 = norm_ - int\nstore v2 as norm_memory : bf16\nstore norm as v2_memory : "
      "bf16");
  const Names names(g);
  std::set<std::string> all;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const std::string& name = names.of(id);
    EXPECT_TRUE(all.insert(name).second) << name;
    EXPECT_EQ(name.find("__"), name.npos) << name;
    EXPECT_NE(name.front(), '_') << name;
    for (const char* word : {"int", "float", "column", "norm", "NULL", "acc", "u", "p", "threadIdx"})
      EXPECT_NE(name, word);
  }
  for (std::size_t i = 0; i < g.stores.size(); ++i)
    EXPECT_TRUE(all.insert(names.of_store(i)).second) << names.of_store(i);
}

TEST(Names, StayWhereTheyCan) {
  const Graph g = parse("h = acc + bias[n]\nstore relu(h) as y : bf16");
  const Names names(g);
  EXPECT_EQ(names.of(1), "bias");
  EXPECT_EQ(names.of(2), "h");
  EXPECT_EQ(names.of(3), "v3");
}

}  // namespace
}  // namespace unisono::codegen
