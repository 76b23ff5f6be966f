#include "ir/source.hpp"

#include <gtest/gtest.h>

#include "ir/lexer.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {
namespace {

std::string shown(std::string_view text, Span span) {
  try {
    Source(text).fail(span, "here");
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(Source, MarksTheSpan) {
  EXPECT_EQ(shown("one\ntwo three\nfour", {8, 5}), "line 2, column 5: here\n  2 | two three\n    |     ^^^^^");
  EXPECT_EQ(shown("one\ntwo", {0, 3}), "line 1, column 1: here\n  1 | one\n    | ^^^");
}

TEST(Source, EndsOfLinesAndTexts) {
  EXPECT_EQ(shown("one\ntwo\n", {3, 1}), "line 1, column 4: here\n  1 | one\n    |    ^");
  EXPECT_EQ(shown("one\r\ntwo", {4, 1}), "line 1, column 5: here\n  1 | one\n    |    ^");
  EXPECT_EQ(shown("one\n", {4, 0}), "line 2, column 1: here\n  2 | \n    | ^");
  EXPECT_EQ(shown("", {0, 0}), "line 1, column 1: here\n  1 | \n    | ^");
  EXPECT_EQ(shown("one", {99, 5}), "line 1, column 4: here\n  1 | one\n    |    ^");
}

TEST(Source, ASpanOverLinesIsMarkedOnTheFirst) {
  EXPECT_EQ(shown("f(a,\n  b)", {1, 8}), "line 1, column 2: here\n  1 | f(a,\n    |  ^^^");
}

TEST(Source, ColumnsCountCharacters) {
  EXPECT_EQ(shown("# \xc3\xa9t\xc3\xa9 x", {8, 1}),
            "line 1, column 7: here\n  1 | # \xc3\xa9t\xc3\xa9 x\n    |       ^");
  EXPECT_EQ(shown("\xe2\x82\xac$", {0, 3}), "line 1, column 1: here\n  1 | \xe2\x82\xac$\n    | ^");
}

TEST(Source, WhatCannotBeShown) {
  EXPECT_EQ(shown("\tx", {1, 1}), "line 1, column 2: here\n  1 |  x\n    |  ^");
  EXPECT_EQ(shown(std::string_view("a\0\x1b[b", 5), {4, 1}), "line 1, column 5: here\n  1 | a??[b\n    |     ^");
  EXPECT_EQ(shown("\xff\xc3(x", {3, 1}), "line 1, column 4: here\n  1 | ?\?(x\n    |    ^");
  EXPECT_EQ(shown("\xc2\x9bx", {2, 1}), "line 1, column 2: here\n  1 | ?x\n    |  ^");  // a C1 control character
}

TEST(Source, OfALongLineTheNeighbourhood) {
  const std::string text = std::string(500, 'a') + "X" + std::string(500, 'b');
  const std::string message = shown(text, {500, 1});
  EXPECT_EQ(message, "line 1, column 501: here\n  1 | ..." + std::string(80, 'a') + "X" + std::string(39, 'b') +
                         "...\n    | " + std::string(83, ' ') + "^");
}

TEST(Source, AHugeLineOfContinuationBytes) {
  const std::string text(1 << 20, '\x80');
  EXPECT_LT(shown(text, {text.size() / 2, 1}).size(), 1000u);
}

std::string tokens_of(std::string_view text) {
  const Source source(text);
  std::string s;
  for (const Token& t : tokenize(source)) {
    if (t.kind == TokenKind::newline)
      s += "\\n ";
    else if (t.kind != TokenKind::end)
      s += std::string(source.text(t.span)) + " ";
  }
  return s;
}

TEST(Lexer, Tokens) {
  EXPECT_EQ(tokens_of("y=a<=b!=-1.5e+3*(x)  # c"), "y = a <= b != - 1.5e+3 * ( x ) ");
  EXPECT_EQ(tokens_of("a\r\n\tb\n#c\n"), "a \\n b \\n \\n ");
  EXPECT_EQ(tokens_of("f(a,\nb[\nn])\nc"), "f ( a , b [ n ] ) \\n c ");
  EXPECT_EQ(tokens_of(")\na"), ") \\n a ");
  EXPECT_EQ(tokens_of("a;b\n(;"), "a \\n b \\n ( \\n ");
  EXPECT_EQ(tokens_of(".5 5. 0x1.8p-3 0XFF 1e-5"), ".5 5. 0x1.8p-3 0XFF 1e-5 ");
}

TEST(Lexer, MalformedNumbers) {
  for (const auto text : {"1.2.3", "2x", "1e", "1e+", "0x", "0xinf", "0xnan", "0x1p", "1_000", "1e5.5", "0x1.8p-"})
    EXPECT_THROW(tokens_of(text), UserError) << text;
  for (const auto text : {"1e999", "1e-999", "0x1p5000"}) EXPECT_THROW(tokens_of(text), UserError) << text;
}

TEST(Lexer, CharactersThatBeginNothing) {
  for (const auto text : {"a @", "$", "\"", "'", "%", "^", "~", "`", "\x01", "\xc3\xa9", "\r", "a\rb"})
    EXPECT_THROW(tokens_of(text), UserError) << text;
  EXPECT_THROW(tokens_of(std::string_view("\0", 1)), UserError);
}

}  // namespace
}  // namespace unisono::ir
