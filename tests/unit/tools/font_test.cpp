#include "figure/font.hpp"

#include <gtest/gtest.h>

#include <set>

namespace unisono::figure {
namespace {

std::vector<char32_t> characters(std::string_view text) {
  std::vector<char32_t> out;
  while (!text.empty()) out.push_back(next_character(text));
  return out;
}

media::Image drawn(const Font& font, std::string_view text, double size = 24) {
  Canvas canvas(60, 40, colors::white);
  font.draw(canvas, {5, 28}, text, size, colors::black);
  return canvas.image();
}

std::string bytes(const media::Image& image) { return {image.pixels.begin(), image.pixels.end()}; }

TEST(Utf8, DecodesAndReplaces) {
  EXPECT_EQ(characters("aµ→😀"), (std::vector<char32_t>{U'a', U'µ', U'→', U'😀'}));
  constexpr char32_t bad = 0xfffd;
  EXPECT_EQ(characters("\xff"), (std::vector<char32_t>{bad}));
  EXPECT_EQ(characters("\xc3"), (std::vector<char32_t>{bad}));
  EXPECT_EQ(characters("\xe2\x86z"), (std::vector<char32_t>{bad, U'z'}));
  EXPECT_EQ(characters("\x80q"), (std::vector<char32_t>{bad, U'q'}));
  EXPECT_EQ(characters("\xfc\x80"), (std::vector<char32_t>{bad, bad}));
}

TEST(StrokeFont, EveryCharacterHasItsOwnShape) {
  for (const Weight weight : {Weight::regular, Weight::bold}) {
    const auto font = stroke_font(weight);
    std::set<std::string> shapes;
    for (char c = ' '; c <= '~'; ++c) EXPECT_TRUE(shapes.insert(bytes(drawn(*font, std::string(1, c)))).second) << c;
    for (const char* text : {"·", "×", "–", "—", "→", "µ", "…", "語"})
      EXPECT_TRUE(shapes.insert(bytes(drawn(*font, text))).second) << text;
  }
}

TEST(StrokeFont, InkStaysWithinTheAdvance) {
  const auto font = stroke_font(Weight::regular);
  for (char c = '!'; c <= '~'; ++c) {
    const std::string text(1, c);
    const media::Image image = drawn(*font, text);
    std::int64_t left = 60, right = -1;
    for (std::int64_t y = 0; y < 40; ++y) {
      for (std::int64_t x = 0; x < 60; ++x) {
        if (image.at(x, y)[0] < 128) left = std::min(left, x), right = std::max(right, x);
      }
    }
    EXPECT_GE(left, 5) << c;
    EXPECT_LE(static_cast<double>(right), 5 + font->width(text, 24)) << c;
  }
}

TEST(Fonts, WidthsGrowWithTextAndSize) {
  for (const auto& font : {stroke_font(Weight::regular), system_font(Weight::bold)}) {
    EXPECT_EQ(font->width("", 20), 0) << font->source();
    EXPECT_GT(font->width("aa", 20), font->width("a", 20)) << font->source();
    EXPECT_NEAR(font->width("sample", 40), 2 * font->width("sample", 20), 8) << font->source();
  }
}

TEST(Fonts, AlignmentMovesTheText) {
  const auto font = stroke_font(Weight::regular);
  Canvas left(200, 40, colors::white), right(200, 40, colors::white);
  const double width = font->width("abc", 20);
  draw_text(left, *font, {150 - width, 28}, "abc", 20, colors::black);
  draw_text(right, *font, {150, 28}, "abc", 20, colors::black, Align::right);
  EXPECT_EQ(left.image().pixels, right.image().pixels);
}

TEST(Fonts, SystemFontDrawsInk) {
  const auto font = system_font(Weight::regular);
  EXPECT_FALSE(font->source().empty());
  EXPECT_NE(drawn(*font, "A").pixels, drawn(*font, " ").pixels) << font->source();
  EXPECT_NE(drawn(*font, "A").pixels, drawn(*font, "B").pixels) << font->source();
}

}  // namespace
}  // namespace unisono::figure
