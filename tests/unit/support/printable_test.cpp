#include "support/printable.hpp"

#include <gtest/gtest.h>

namespace unisono::support {
namespace {

TEST(Printable, TextStaysAsItIs) {
  const std::string text = "conv_1/Äußere 層\n\t- ½ 🙂";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, WhatATerminalObeysIsWrittenOut) {
  EXPECT_EQ(printable("\x1b]0;pwned\x07\x1b[31m<f4"), "\\x1b]0;pwned\\x07\\x1b[31m<f4");
  EXPECT_EQ(printable(std::string("a\0b\r\x7f", 5)), "a\\x00b\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // CSI as one character
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\u202eb");                                // turns the text around
  EXPECT_EQ(printable("\xff\xc3 ok"), "\\xff\\xc3 ok");  // malformed
}

TEST(Printable, JsonStaysJson) {
  EXPECT_EQ(printable_json("{\"a\": [\n\t1]}"), "{\"a\": [\n\t1]}");
  EXPECT_EQ(printable_json("\"\xc2\x85\x7f\xe2\x80\xae\xc3\xb6\""), "\"\\u0085\\u007f\\u202e\xc3\xb6\"");
}

TEST(Printable, NamesAreOnOneLineAndNotEndless) {
  EXPECT_EQ(printable_name("a\nb\tc"), "a\\x0ab\\x09c");
  EXPECT_EQ(printable_name(std::string(100, 'x'), 10), "xxxxxxxxxx…");
  EXPECT_EQ(printable_name("short", 10), "short");
}

}  // namespace
}  // namespace unisono::support
