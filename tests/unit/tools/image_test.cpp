#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "media/image.hpp"
#include "sample_files.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono {
namespace {

using media::Image;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::Bytes;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Png, RoundTripKeepsEveryByte) {
  for (const int channels : {1, 3}) {
    Image image = media::make_image(37, 5, channels);
    std::mt19937 random(7);
    for (std::uint8_t& p : image.pixels) p = static_cast<std::uint8_t>(random());
    const Image back = media::decode_png(media::encode_png(image), "x.png");
    EXPECT_EQ(back.width, 37);
    EXPECT_EQ(back.height, 5);
    EXPECT_EQ(back.channels, channels);
    EXPECT_EQ(back.pixels, image.pixels);
  }
}

TEST(Png, InterlacedEqualsPlain) {
  const Image image = tests::gradient(19, 13);
  const auto row = [&](std::int64_t y) { return Bytes(image.at(0, y), image.at(0, y) + 19 * 3); };
  EXPECT_EQ(media::decode_png(tests::png_file(19, 13, {.interlaced = true}, row), "x.png").pixels, image.pixels);
}

TEST(Png, SixteenBitsAreRounded) {
  // 0x80ff is 128.5 + of 255: 33023·255/65535 = 128.496, rounded 128; 0x8180 gives 129.0
  const auto row = [](std::int64_t) { return Bytes{0x80, 0xff, 0x81, 0x80, 0xff, 0xff, 0x00, 0x7f}; };
  const Image image = media::decode_png(tests::png_file(4, 1, {.color_type = 0, .bit_depth = 16}, row), "x.png");
  EXPECT_EQ(image.channels, 1);
  EXPECT_THAT(image.pixels, ElementsAre(128, 129, 255, 0));
}

TEST(Png, ShortSamplesAndPalettesAreExpanded) {
  const auto bits = [](std::int64_t) { return Bytes{0b10110000}; };
  EXPECT_THAT(media::decode_png(tests::png_file(4, 1, {.color_type = 0, .bit_depth = 1}, bits), "x.png").pixels,
              ElementsAre(255, 0, 255, 255));
  const tests::PngKind palette{
      .color_type = 3, .bit_depth = 2, .palette = {{1, 2, 3}, {40, 50, 60}, {7, 8, 9}, {255, 0, 1}}};
  const Image image = media::decode_png(tests::png_file(4, 1, palette, bits), "x.png");  // indices 2 3 0 0
  EXPECT_EQ(image.channels, 3);
  EXPECT_THAT(image.pixels, ElementsAre(7, 8, 9, 255, 0, 1, 1, 2, 3, 1, 2, 3));
}

TEST(Png, AlphaIsCompositedOverWhite) {
  const auto rgba = [](std::int64_t) { return Bytes{10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 255, 128}; };
  EXPECT_THAT(media::decode_png(tests::png_file(3, 1, {.color_type = 6}, rgba), "x.png").pixels,
              ElementsAre(10, 20, 30, 255, 255, 255, 127, 177, 255));
  const auto grey = [](std::int64_t) { return Bytes{10, 255, 10, 0, 100, 51}; };
  const Image image = media::decode_png(tests::png_file(3, 1, {.color_type = 4}, grey), "x.png");
  EXPECT_EQ(image.channels, 1);
  EXPECT_THAT(image.pixels, ElementsAre(10, 255, 224));
}

TEST(Png, TransparentColoursTurnWhite) {
  const auto rgb = [](std::int64_t) { return Bytes{1, 2, 3, 4, 5, 6}; };
  EXPECT_THAT(media::decode_png(tests::png_file(2, 1, {.transparent = {{4, 5, 6}}}, rgb), "x.png").pixels,
              ElementsAre(1, 2, 3, 255, 255, 255));
  const auto indices = [](std::int64_t) { return Bytes{0b01000000}; };
  const tests::PngKind palette{
      .color_type = 3, .bit_depth = 1, .transparent = {{1, 0, 0}}, .palette = {{1, 2, 3}, {4, 5, 6}}};
  EXPECT_THAT(media::decode_png(tests::png_file(2, 1, palette, indices), "x.png").pixels,
              ElementsAre(1, 2, 3, 255, 255, 255));
}

TEST(Png, TooManyPixelsAreRefusedFromTheHeaderAlone) {
  Bytes file = media::encode_png(media::make_image(100, 90, 1));
  EXPECT_THAT(refusal([&] { media::decode_png(file, "big.png", {.pixels = 8999}); }),
              testing::AllOf(HasSubstr("big.png"), HasSubstr("100 x 90"), HasSubstr("8999")));
  EXPECT_NO_THROW(media::decode_png(file, "big.png", {.pixels = 9000}));
}

TEST(Png, EveryTruncationIsRefused) {
  const Bytes file = media::encode_png(tests::gradient(16, 16));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(refusal([&] { media::decode_png({file.data(), size}, "cut.png"); }), HasSubstr("cut.png")) << size;
  }
}

TEST(Png, EveryFlippedBitIsSeenOrHarmless) {
  // a checksum covers every chunk: what still decodes must be the same picture
  const Image image = tests::gradient(8, 8);
  Bytes file = media::encode_png(image);
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    try {
      EXPECT_EQ(media::decode_png(file, "bad.png").pixels, image.pixels) << bit;
    } catch (const UserError&) {
      ++refused;
    }
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  }
  EXPECT_GT(refused, static_cast<int>(7 * file.size()));
}

TEST(Jpeg, DecodesWithinTheLossOfTheFormat) {
  const Image image = tests::gradient(50, 33);
  for (const bool progressive : {false, true}) {
    const Image back =
        media::decode_jpeg(tests::jpeg_file(50, 33, image.pixels, {.progressive = progressive}), "x.jpg");
    ASSERT_EQ(back.pixels.size(), image.pixels.size());
    EXPECT_EQ(back.channels, 3);
    for (std::size_t i = 0; i < image.pixels.size(); ++i) ASSERT_NEAR(back.pixels[i], image.pixels[i], 12) << i;
  }
}

TEST(Jpeg, GreyStaysGrey) {
  const Bytes pixels(24 * 8, 77);
  const Image back = media::decode_jpeg(tests::jpeg_file(24, 8, pixels, {.components = 1}), "x.jpg");
  EXPECT_EQ(back.channels, 1);
  EXPECT_THAT(back.pixels, testing::Each(testing::AllOf(testing::Ge(76), testing::Le(78))));
  EXPECT_EQ(media::to_rgb(back).pixels.size(), 3 * back.pixels.size());
}

TEST(Jpeg, CmykIsRefusedByName) {
  const Bytes file = tests::jpeg_file(8, 8, Bytes(8 * 8 * 4, 9), {.components = 4});
  EXPECT_THAT(refusal([&] { media::decode_jpeg(file, "print.jpg"); }),
              testing::AllOf(HasSubstr("print.jpg"), HasSubstr("CMYK"), HasSubstr("RGB")));
}

TEST(Jpeg, TooManyPixelsAreRefused) {
  const Bytes file = tests::jpeg_file(40, 40, Bytes(1600, 1), {.components = 1});
  EXPECT_THAT(refusal([&] { media::decode_jpeg(file, "big.jpg", {.pixels = 1599}); }), HasSubstr("40 x 40"));
}

TEST(Jpeg, EveryTruncationIsRefused) {
  for (const bool progressive : {false, true}) {
    const Bytes file = tests::jpeg_file(20, 20, tests::gradient(20, 20).pixels, {.progressive = progressive});
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_THAT(refusal([&] { media::decode_jpeg({file.data(), size}, "cut.jpg"); }), HasSubstr("cut.jpg")) << size;
    }
  }
}

TEST(Jpeg, FlippedBitsGiveAPictureOrAUserError) {
  const Image image = tests::gradient(24, 24);
  Bytes file = tests::jpeg_file(24, 24, image.pixels, {.progressive = true});
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    try {
      const Image back = media::decode_jpeg(file, "bad.jpg", {.pixels = 1 << 20});
      EXPECT_EQ(back.pixels.size(), static_cast<std::size_t>(back.width * back.height * back.channels));
    } catch (const UserError&) {
    }
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  }
}

/// A progressive file whose one scan of all coefficients' first bits is repeated `count` times.
Bytes repeat_scans(const Bytes& file, int count) {
  std::vector<std::size_t> scans;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == 0xff && file[i + 1] == 0xda) scans.push_back(i);
  }
  const Bytes last(file.begin() + static_cast<std::ptrdiff_t>(scans.back()), file.end() - 2);
  Bytes out(file.begin(), file.end() - 2);
  for (int i = 0; i < count; ++i) out.insert(out.end(), last.begin(), last.end());
  out.insert(out.end(), file.end() - 2, file.end());
  return out;
}

TEST(Jpeg, EndlessScansAreRefused) {
  const Bytes file = tests::jpeg_file(16, 16, Bytes(256, 100), {.components = 1, .progressive = true});
  EXPECT_NO_THROW(media::decode_jpeg(repeat_scans(file, 20), "scans.jpg"));
  EXPECT_THAT(refusal([&] { media::decode_jpeg(repeat_scans(file, 500), "scans.jpg"); }), HasSubstr("scans"));
}

TEST(ReadImage, TellsFormatsApartAndNamesTheFile) {
  const support::TemporaryFolder temporary(std::filesystem::temp_directory_path());
  const std::filesystem::path folder = temporary.path();
  const Image image = tests::gradient(9, 4);
  media::write_png(folder / "unisono_sample.any", image);
  EXPECT_EQ(media::read_image(folder / "unisono_sample.any").pixels, image.pixels);
  media::write_file(folder / "unisono_sample.any", tests::jpeg_file(9, 4, image.pixels, {}));
  EXPECT_EQ(media::read_image(folder / "unisono_sample.any").width, 9);
  media::write_file(folder / "unisono_sample.any", std::string_view("GIF89a, in truth"));
  EXPECT_THAT(refusal([&] { media::read_image(folder / "unisono_sample.any"); }),
              testing::AllOf(HasSubstr("unisono_sample.any"), HasSubstr("47 49 46")));
  std::filesystem::remove(folder / "unisono_sample.any");
  EXPECT_THAT(refusal([&] { media::read_image(folder / "unisono_sample.any"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace unisono
