#include "support/utf8.hpp"

#include <gtest/gtest.h>

namespace unisono::support {
namespace {

void expect_character(std::string_view text, std::optional<char32_t> code, std::size_t bytes) {
  const Utf8Character c = first_character(text);
  EXPECT_EQ(c.code, code) << text;
  EXPECT_EQ(c.bytes, bytes) << text;
}

TEST(Utf8, CharactersOfEveryLength) {
  expect_character("az", U'a', 1);
  expect_character({"\0", 1}, U'\0', 1);
  expect_character("\xc2\x80", 0x80, 2);
  expect_character("\xe2\x82\xac$", 0x20ac, 3);
  expect_character("\xf4\x8f\xbf\xbf", 0x10ffff, 4);
}

TEST(Utf8, Malformed) {
  expect_character("\x80", {}, 1);              // continues nothing
  expect_character("\xff", {}, 1);              // no first byte
  expect_character("\xc0\xaf", {}, 1);          // overlong
  expect_character("\xe0\x80\x80", {}, 3);      // overlong
  expect_character("\xed\xa0\x80", {}, 3);      // a surrogate
  expect_character("\xf4\x90\x80\x80", {}, 4);  // beyond the last
  expect_character("\xe2\x86z", {}, 2);         // cut off by a character
  expect_character("\xf0\x9f\x98", {}, 3);      // cut off by the end
}

}  // namespace
}  // namespace unisono::support
