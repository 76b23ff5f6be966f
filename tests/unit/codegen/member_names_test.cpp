// Members of the structs that emitted headers declare.

#include "codegen/member_names.hpp"

#include <gtest/gtest.h>

namespace unisono::codegen {
namespace {

TEST(MemberNames, AreAsTheyAreGiven) {
  MemberNames names({"workspace"});
  for (const char* name : {"left", "y", "W", "w1", "B0", "Q_proj", "_x"}) EXPECT_EQ(names.add(name, "_operand"), name);
}

TEST(MemberNames, AreNoWordsAndNoMacros) {
  MemberNames names({"workspace"});
  EXPECT_EQ(names.add("class", "_operand"), "class_");
  EXPECT_EQ(names.add("restrict", "_operand"), "restrict_");
  EXPECT_EQ(names.add("NULL", "_operand"), "NULL_");
  EXPECT_EQ(names.add("M_PI", "_operand"), "M_PI_");
  EXPECT_EQ(names.add("errno", "_operand"), "errno_");
  EXPECT_EQ(names.add("workspace", "_operand"), "workspace_operand");
}

// Whatever names a text has
TEST(MemberNames, AreDistinct) {
  MemberNames names({"workspace"});
  EXPECT_EQ(names.add("left", "_operand"), "left");
  EXPECT_EQ(names.add("left_operand", "_operand"), "left_operand");
  EXPECT_EQ(names.add("left", "_operand"), "left_operand_");
  EXPECT_EQ(names.add("class_", "_operand"), "class_");
  EXPECT_EQ(names.add("class", "_operand"), "class_operand");
  EXPECT_EQ(names.add("left", "_operand"), "left_operand__");
  EXPECT_EQ(names.add("left", "_output"), "left_output");
}

}  // namespace
}  // namespace unisono::codegen
