#include <algorithm>
#include <array>
#include <string>

#include "figure/font.hpp"

namespace unisono::figure {
namespace {

// A glyph is its width and then polylines of points (x, y), one digit each: the baseline is y = 2, small letters reach
// to 7, capitals to 9, descenders to 0. A point alone, given twice, is a dot.
constexpr std::array<std::string_view, 95> ascii{
    "2",                                        // space
    "0 0904 0202",                              // !
    "2 0907 2927",                              // "
    "4 1318 3338 0545 0747",                    // #
    "4 483919080716354443321203 2921",          // $
    "4 0809191808 3233434232 0249",             // %
    "5 5217182938370403123255",                 // &
    "0 0907",                                   // '
    "1 19070412",                               // (
    "1 09171402",                               // )
    "4 2428 0547 0745",                         // *
    "4 2327 0545",                              // +
    "1 1201",                                   // ,
    "3 0535",                                   // -
    "0 0202",                                   // .
    "3 0139",                                   // /
    "4 193948433212030819",                     // 0
    "2 081912 0222",                            // 1
    "4 08193948470242",                         // 2
    "4 08193948473616 364543321203",            // 3
    "4 32390444",                               // 4
    "4 490906364543321203",                     // 5
    "4 483919080312324345361605",               // 6
    "4 094912",                                 // 7
    "4 193948473616070819 163645433212030516",  // 8
    "4 031232434839190806153546",               // 9
    "0 0606 0202",                              // :
    "1 1616 1201",                              // ;
    "3 380532",                                 // <
    "4 0646 0444",                              // =
    "3 083502",                                 // >
    "3 08192938371514 1212",                    // ?
    "6 5212030819596865544547 473726253445",    // @
    "4 022942 1535",                            // A
    "4 02093948473606 3645433202",              // B
    "4 4839190803123243",                       // C
    "4 02092947442202",                         // D
    "3 39090232 0626",                          // E
    "3 390902 0626",                            // F
    "4 48391908031232434525",                   // G
    "4 0209 4249 0646",                         // H
    "0 0209",                                   // I
    "3 3933221203",                             // J
    "4 0209 4905 1642",                         // K
    "3 090232",                                 // L
    "4 0209254942",                             // M
    "4 02094249",                               // N
    "5 194958534212030819",                     // O
    "4 02093948463505",                         // P
    "5 194958534212030819 3451",                // Q
    "4 02093948463505 2542",                    // R
    "4 483919080716354443321203",               // S
    "4 0949 2922",                              // T
    "4 090312324349",                           // U
    "4 092249",                                 // V
    "6 0912375269",                             // W
    "4 0249 0942",                              // X
    "4 092549 2522",                            // Y
    "4 09490242",                               // Z
    "1 19090111",                               // [
    "3 0931",                                   // backslash
    "1 09191101",                               // ]
    "4 072947",                                 // ^
    "4 0141",                                   // _
    "1 0918",                                   // `
    "3 0617273632 35150403122233",              // a
    "3 0902 0617273633221203",                  // b
    "3 3627170603122233",                       // c
    "3 3932 3627170603122233",                  // d
    "3 05353627170603122233",                   // e
    "2 291812 0727",                            // f
    "3 3731201001 3627170603122233",            // g
    "3 0902 0617273632",                        // h
    "0 0702 0909",                              // i
    "1 171100 1919",                            // j
    "3 0902 3704 1532",                         // k
    "1 090312",                                 // l
    "6 0702 0617273632 3647576662",             // m
    "3 0702 0617273632",                        // n
    "3 172736332212030617",                     // o
    "3 0700 0617273633221203",                  // p
    "3 3730 3627170603122233",                  // q
    "2 0702 061727",                            // r
    "3 36271706152433221203",                   // s
    "2 191322 0727",                            // t
    "3 0703122233 3732",                        // u
    "4 072247",                                 // v
    "4 0712263247",                             // w
    "3 0732 3702",                              // x
    "4 0722 471000",                            // y
    "3 07370232",                               // z
    "2 29181605141221",                         // {
    "0 0901",                                   // |
    "2 09181625141201",                         // }
    "4 05163445",                               // ~
};

std::string_view glyph(char32_t c) {
  if (c >= 32 && c < 127) return ascii[c - 32];
  switch (c) {
    case U'·': return "0 0505";
    case U'×': return "3 0437 0734";
    case U'–': return "4 0545";
    case U'—': return "6 0565";
    case U'→': return "5 0555 375533";
    case U'µ': return "3 0700 03122233 3732";
    case U'…': return "4 0202 2222 4242";
    default: return "4 0209494202";  // a box
  }
}

constexpr double cap_height = 0.73;      // relative to the size
constexpr double unit = cap_height / 7;  // side of a cell of the grid
constexpr double gap = 1.9;              // between glyphs, in units

class StrokeFont final : public Font {
 public:
  explicit StrokeFont(Weight weight) : thickness_(weight == Weight::bold ? 0.135 : 0.085) {}

  double width(std::string_view text, double size) const override {
    double units = 0;
    while (!text.empty()) units += advance(glyph(next_character(text)));
    return units * unit * size;
  }

  void draw(Canvas& canvas, Point origin, std::string_view text, double size, Color color) const override {
    const double scale = unit * size;
    double left = origin.x + gap / 2 * scale;
    while (!text.empty()) {
      const std::string_view shape = glyph(next_character(text));
      const auto point = [&](std::size_t i) {
        return Point{left + (shape[i] - '0') * scale, origin.y - (shape[i + 1] - '2') * scale};
      };
      for (std::size_t i = 2; i + 3 < shape.size(); i += 2) {
        if (shape[i] == ' ') ++i;
        if (i + 2 < shape.size() && shape[i + 2] != ' ') {
          canvas.line(point(i), point(i + 2), std::max(1.0, thickness_ * size), color);
        }
      }
      left += advance(shape) * scale;
    }
  }

  std::string source() const override { return "built in"; }

 private:
  static double advance(std::string_view shape) { return shape[0] - '0' + gap; }

  double thickness_;  // relative to the size
};

}  // namespace

std::unique_ptr<Font> stroke_font(Weight weight) { return std::make_unique<StrokeFont>(weight); }

}  // namespace unisono::figure
