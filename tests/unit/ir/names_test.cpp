#include "ir/names.hpp"

#include <gtest/gtest.h>

#include <string>

#include "unisono/error.hpp"

namespace unisono::ir {
namespace {

TEST(Names, Identifiers) {
  EXPECT_TRUE(is_identifier("h"));
  EXPECT_TRUE(is_identifier("_1"));
  EXPECT_TRUE(is_identifier(std::string(128, 'x')));
  EXPECT_FALSE(is_identifier(std::string(129, 'x')));
  EXPECT_FALSE(is_identifier(""));
  EXPECT_FALSE(is_identifier("1h"));
  EXPECT_FALSE(is_identifier("a-b"));
  EXPECT_FALSE(is_identifier("a.b"));
  EXPECT_FALSE(is_identifier("\xc3\xa9"));
  EXPECT_FALSE(is_identifier(std::string_view("a\0b", 3)));
}

TEST(Names, WordsOfTheTextForm) {
  for (const auto word :
       {"acc", "acc0", "acc1", "store", "operand", "index", "extent", "as", "inf", "nan", "all", "relu", "max", "cast"})
    EXPECT_TRUE(is_reserved(word)) << word;
  // What has a meaning in one place only stays free elsewhere
  for (const auto word : {"m", "n", "b", "h", "w", "over", "per", "groups", "scale", "f32", "c"})
    EXPECT_FALSE(is_reserved(word)) << word;
}

TEST(Names, Errors) {
  EXPECT_NO_THROW(check_identifier("bias", "operand"));
  EXPECT_THROW(check_identifier("a b", "operand"), UserError);
  EXPECT_THROW(check_identifier("mish", "operand"), UserError);
  EXPECT_THROW(check_identifier(std::string(1 << 20, 'x'), "operand"), UserError);
}

}  // namespace
}  // namespace unisono::ir
