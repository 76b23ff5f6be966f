#include <ft2build.h>
#include FT_FREETYPE_H

#include <array>
#include <cmath>
#include <filesystem>

#include "figure/font.hpp"

namespace unisono::figure {
namespace {

struct FontFile {
  const char* regular;
  const char* bold;
};
/// Where Debian, Ubuntu, Fedora, Arch and macOS keep their usual sans-serif fonts, the best first.
constexpr std::array<FontFile, 9> candidates{{
    {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf"},
    {"/usr/share/fonts/TTF/DejaVuSans.ttf", "/usr/share/fonts/TTF/DejaVuSans-Bold.ttf"},
    {"/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf", "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans-Bold.ttf"},
    {"/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf", "/usr/share/fonts/truetype/noto/NotoSans-Bold.ttf"},
    {"/usr/share/fonts/noto/NotoSans-Regular.ttf", "/usr/share/fonts/noto/NotoSans-Bold.ttf"},
    {"/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
     "/usr/share/fonts/truetype/liberation/LiberationSans-Bold.ttf"},
    {"/usr/share/fonts/liberation-sans/LiberationSans-Regular.ttf",
     "/usr/share/fonts/liberation-sans/LiberationSans-Bold.ttf"},
    {"/usr/share/fonts/truetype/freefont/FreeSans.ttf", "/usr/share/fonts/truetype/freefont/FreeSansBold.ttf"},
    {"/System/Library/Fonts/Supplemental/Arial.ttf", "/System/Library/Fonts/Supplemental/Arial Bold.ttf"},
}};

class TrueTypeFont final : public Font {
 public:
  explicit TrueTypeFont(std::string path) : path_(std::move(path)) {
    if (FT_Init_FreeType(&library_) != 0) return;
    if (FT_New_Face(library_, path_.c_str(), 0, &face_) != 0) face_ = nullptr;
  }
  ~TrueTypeFont() override {
    if (face_ != nullptr) FT_Done_Face(face_);
    if (library_ != nullptr) FT_Done_FreeType(library_);
  }
  TrueTypeFont(const TrueTypeFont&) = delete;
  TrueTypeFont& operator=(const TrueTypeFont&) = delete;
  bool usable() const { return face_ != nullptr && FT_IS_SCALABLE(face_); }

  double width(std::string_view text, double size) const override {
    double pen = 0;
    each_glyph(text, size, FT_LOAD_DEFAULT,
               [&](double at) { pen = at + static_cast<double>(face_->glyph->advance.x) / 64; });
    return pen;
  }

  void draw(Canvas& canvas, Point origin, std::string_view text, double size, Color color) const override {
    each_glyph(text, size, FT_LOAD_RENDER, [&](double at) {
      const FT_GlyphSlot slot = face_->glyph;
      const auto left = static_cast<std::int64_t>(std::lround(origin.x + at)) + slot->bitmap_left;
      const auto top = static_cast<std::int64_t>(std::lround(origin.y)) - slot->bitmap_top;
      const FT_Bitmap& bitmap = slot->bitmap;
      if (bitmap.pixel_mode != FT_PIXEL_MODE_GRAY) return;
      for (std::int64_t y = 0; y < bitmap.rows; ++y) {
        for (std::int64_t x = 0; x < bitmap.width; ++x) {
          canvas.blend(left + x, top + y, color, bitmap.buffer[y * bitmap.pitch + x] / 255.0);
        }
      }
    });
  }

  std::string source() const override { return path_; }

 private:
  /// Loads glyph after glyph and calls `visit` with the pen's place; kerning included.
  template <class Visit>
  void each_glyph(std::string_view text, double size, FT_Int32 flags, const Visit& visit) const {
    FT_Set_Char_Size(face_, 0, static_cast<FT_F26Dot6>(std::lround(size * 64)), 72, 72);
    double pen = 0;
    FT_UInt previous = 0;
    while (!text.empty()) {
      const FT_UInt index = FT_Get_Char_Index(face_, next_character(text));
      FT_Vector kerning{0, 0};
      if (previous != 0 && index != 0) FT_Get_Kerning(face_, previous, index, FT_KERNING_DEFAULT, &kerning);
      pen += static_cast<double>(kerning.x) / 64;
      if (FT_Load_Glyph(face_, index, flags | FT_LOAD_TARGET_LIGHT) == 0) {
        visit(pen);
        pen += static_cast<double>(face_->glyph->advance.x) / 64;
      }
      previous = index;
    }
  }

  std::string path_;
  FT_Library library_ = nullptr;
  FT_Face face_ = nullptr;
};

}  // namespace

std::unique_ptr<Font> system_font(Weight weight) {
  for (const FontFile& file : candidates) {
    const char* path = weight == Weight::bold ? file.bold : file.regular;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    auto font = std::make_unique<TrueTypeFont>(path);
    if (font->usable()) return font;
  }
  return stroke_font(weight);
}

}  // namespace unisono::figure
