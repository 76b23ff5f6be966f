// Hostile texts: each is refused by a UserError, or read, without running out of stack, memory or patience.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using testing::HasSubstr;

std::string repeated(std::string_view s, int n) {
  std::string r;
  for (int i = 0; i < n; ++i) r += s;
  return r;
}

std::string error_of(const std::string& text) {
  try {
    parse(text, {{.name = "tick", .arity = 0, .returns_value = false, .cuda_source = "x", .cpu = {}}});
  } catch (const UserError& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 2000u);
    return error.what();
  }
  return "no error";
}

TEST(ParserLimits, Size) {
  const std::string longest = "store acc\n" + std::string((1 << 20) - 10, ' ');
  EXPECT_NO_THROW(parse(longest));
  EXPECT_THAT(error_of(longest + " "), HasSubstr("the text has 1048577 bytes; the limit is 1048576"));
}

TEST(ParserLimits, Nesting) {
  EXPECT_NO_THROW(parse("store " + repeated("(", 200) + "acc" + repeated(")", 200)));
  EXPECT_NO_THROW(parse("store " + repeated("-", 200) + "acc"));
  EXPECT_NO_THROW(parse("store " + repeated("sin(", 200) + "acc" + repeated(")", 200)));
  for (const auto* open :
       {"(", "-", "!", "sin(", "max(acc, ", "group_norm(acc, groups=1, scale=", "1 + (", "1 | 1 & 1 < 1 + 1 * ("})
    for (const int n : {201, 20000})
      EXPECT_THAT(error_of("store " + repeated(open, n)), HasSubstr("nested deeper than 200 levels")) << open;
}

TEST(ParserLimits, Nodes) {
  EXPECT_NO_THROW(parse("store acc" + repeated("+acc", 99999)));
  EXPECT_THAT(error_of("store acc" + repeated("+acc", 100000)), HasSubstr("more than 100000 nodes"));
  std::string sum = "store 0";  // leaves count too
  for (int i = 1; i < 60000; ++i) sum += "+" + std::to_string(i);
  EXPECT_THAT(error_of(sum), HasSubstr("more than 100000 nodes"));
  EXPECT_THAT(error_of(repeated("tick()\n", 100001)), Says("line 100001, column 1: … more than"));
}

TEST(ParserLimits, LongNames) {
  EXPECT_NO_THROW(parse(std::string(128, 'x') + " = acc\nstore acc"));
  for (const std::string before : {"store ", "store acc : ", "store cast(acc, ", "", "store x["})
    for (const int n : {129, 1000000})
      EXPECT_THAT(error_of(before + std::string(n, 'x')), HasSubstr("characters; the limit is 128"));
  EXPECT_THAT(error_of("store x[" + repeated("n,", 500000)), HasSubstr("expected ']'"));
  EXPECT_THAT(error_of("store x[" + repeated("n,", 500000) + "]"), HasSubstr("unknown axes"));
  EXPECT_THAT(error_of("store " + std::string(1000000, '1')), HasSubstr("out of the range"));
}

TEST(ParserLimits, ManyNamesAndAMiss) {
  std::string text;
  for (int i = 0; text.size() < 1000000; ++i) text += "value" + std::to_string(i) + "=acc\n";
  EXPECT_THAT(error_of(text + "store valeu77"), HasSubstr("did you mean 'value77'?"));
}

TEST(ParserLimits, ManyStoresAndAliases) {
  std::string text;
  for (int i = 0; text.size() < 1000000; ++i) text += "store acc as s" + std::to_string(i) + "\n";
  EXPECT_GT(parse(text).stores.size(), 40000u);
}

TEST(ParserLimits, Unclosed) {
  EXPECT_THAT(error_of("store sin(acc\n" + repeated("store acc\n", 50000)),
              HasSubstr("to close the '(' of line 1, column 10"));
}

}  // namespace
}  // namespace unisono
