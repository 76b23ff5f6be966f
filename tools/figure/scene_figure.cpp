#include "figure/scene_figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "figure/resample.hpp"

namespace unisono::figure {
namespace {

constexpr Color paper{252, 252, 253}, ink{28, 32, 42}, muted{104, 112, 128}, hairline{214, 218, 226};
constexpr Color green{24, 160, 88}, red{222, 49, 60}, amber{255, 176, 32}, blue{62, 132, 246};

constexpr double margin = 32, panel = 438, gap = 14, caption_height = 19, row_gap = 26, row_title = 28;

bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

/// What of a panel is taken by marks and their labels.
struct Places {
  Rect panel;
  std::vector<Rect> taken;

  /// Boxes covered, and as much as ten for leaving the panel.
  int conflicts(const Rect& r) const {
    const bool inside = r.x >= panel.x && r.y >= panel.y && r.right() <= panel.right() && r.bottom() <= panel.bottom();
    return static_cast<int>(std::count_if(taken.begin(), taken.end(), [&](const Rect& t) { return overlap(r, t); })) +
           (inside ? 0 : 10);
  }
};

/// How many small heatmaps stand beside and above one another.
struct Grid {
  int columns = 1, rows = 1;
  explicit Grid(int count) {
    rows = std::max(1, static_cast<int>(std::lround(std::sqrt(count / 2.5))));
    columns = (count + rows - 1) / rows;
  }
  double cell_height() const { return (panel - (rows - 1) * 8 - rows * caption_height) / rows; }
};

bool is_peak(const Mark& mark) {
  return mark.kind == Mark::Kind::right || mark.kind == Mark::Kind::wrong || mark.kind == Mark::Kind::plain;
}

Color color_of(Mark::Kind kind) {
  switch (kind) {
    case Mark::Kind::truth: return colors::white;
    case Mark::Kind::missed: return amber;
    case Mark::Kind::right: return green;
    case Mark::Kind::wrong: return red;
    case Mark::Kind::plain: return blue;
  }
  return colors::white;
}

class Painter {
 public:
  Painter(const SceneFigure& figure, const Font& regular, const Font& bold)
      : figure_(figure), regular_(regular), bold_(bold), grid_(static_cast<int>(figure.classes.size())) {}

  media::Image paint() {
    const double top = header_height();
    double widest = 0;
    for (const Scene& scene : figure_.scenes) widest = std::max(widest, row_width(scene));
    widest = std::max(widest, header_width());
    const double height =
        top + static_cast<double>(figure_.scenes.size()) * (row_title + panel + row_gap) + margin - row_gap;
    Canvas canvas(static_cast<std::int64_t>(std::ceil(widest + 2 * margin)),
                  static_cast<std::int64_t>(std::ceil(height)), paper);
    header(canvas);
    double y = top;
    for (const Scene& scene : figure_.scenes) {
      row(canvas, scene, y);
      y += row_title + panel + row_gap;
    }
    return canvas.image();
  }

 private:
  // ---- sizes ----
  static double panel_width(const Scene& scene) {
    const double ratio = static_cast<double>(scene.image.width) / static_cast<double>(scene.image.height);
    return std::round(panel * std::clamp(ratio, 0.25, 4.0));
  }
  double cell_width(const Scene& scene) const { return std::round(grid_.cell_height() * panel_width(scene) / panel); }
  double row_width(const Scene& scene) const {
    return 2 * (panel_width(scene) + gap) + grid_.columns * (cell_width(scene) + 8) - 8;
  }
  double header_height() const { return margin + 40 + 22 * static_cast<double>(figure_.lines.size()) + 76; }
  double header_width() const {
    double legend = 260;  // width of the colour bar
    for (const LegendItem& item : legend_items()) legend += item_width(item);
    double width = std::max(bold_.width(figure_.title, 26), legend);
    for (const std::string& line : figure_.lines) width = std::max(width, regular_.width(line, 15));
    return width;
  }

  // ---- header ----
  void header(Canvas& canvas) const {
    double y = margin + 22;
    draw_text(canvas, bold_, {margin, y}, figure_.title, 26, ink);
    for (const std::string& line : figure_.lines)
      draw_text(canvas, regular_, {margin, y += (y < margin + 30 ? 30 : 22)}, line, 15, muted);
    y += 18;
    canvas.fill({margin, y, static_cast<double>(canvas.width()) - 2 * margin, 1}, hairline);
    legend(canvas, y + 26);
  }

  bool has(Mark::Kind kind) const {
    return std::any_of(figure_.scenes.begin(), figure_.scenes.end(), [&](const Scene& scene) {
      return std::any_of(scene.marks.begin(), scene.marks.end(), [&](const Mark& mark) { return mark.kind == kind; });
    });
  }

  struct LegendItem {
    Mark::Kind kind;
    std::string text;
  };
  /// The kinds of marks that the scenes have.
  std::vector<LegendItem> legend_items() const {
    std::vector<LegendItem> items{
        {Mark::Kind::truth,
         fmt::format("truth (a peak of its class within {:g} px of the centre counts)", figure_.match_radius)},
        {Mark::Kind::right, "peak: right class and place"},
        {Mark::Kind::wrong, "peak: wrong"},
        {Mark::Kind::missed, "missed"},
        {Mark::Kind::plain, "peak"}};
    std::erase_if(items, [&](const LegendItem& item) { return !has(item.kind); });
    return items;
  }
  double item_width(const LegendItem& item) const { return 26 + regular_.width(item.text, 15) + 28; }

  void legend(Canvas& canvas, double baseline) const {
    double x = margin;
    for (const LegendItem& item : legend_items()) {
      const Point p{x + 9, baseline - 5};
      if (item.kind == Mark::Kind::truth) {
        canvas.ring(p, 8, 4, {90, 96, 110});
        canvas.ring(p, 8, 2, colors::white);
      } else if (item.kind == Mark::Kind::missed) {
        canvas.ring(p, 8, 3, amber);
      } else {
        chip_dot(canvas, p, color_of(item.kind), 6);
      }
      draw_text(canvas, regular_, {x + 26, baseline}, item.text, 15, ink);
      x += item_width(item);
    }
    color_bar(canvas, static_cast<double>(canvas.width()) - margin - 220, baseline);
  }

  void color_bar(Canvas& canvas, double x, double baseline) const {
    constexpr double length = 200;
    for (int i = 0; i < static_cast<int>(length); ++i)
      canvas.fill({x + i, baseline - 14, 1, 13}, heat(i / (length - 1)));
    draw_text(canvas, regular_, {x - 6, baseline - 3}, "0", 13, muted, Align::right);
    draw_text(canvas, regular_, {x + length + 6, baseline - 3}, "1", 13, muted);
    if (figure_.threshold <= 0) return;
    const double at = x + figure_.threshold * length;
    canvas.fill({std::round(at) - 1, baseline - 18, 2, 21}, ink);
    draw_text(canvas, regular_, {at, baseline + 15}, fmt::format("threshold {:g}", figure_.threshold), 12, muted,
              Align::centre);
  }

  // ---- one scene ----
  void row(Canvas& canvas, const Scene& scene, double y) const {
    draw_text(canvas, bold_, {margin, y + 16}, scene.name, 15, ink);
    draw_text(canvas, regular_, {margin + bold_.width(scene.name, 15) + 12, y + 16}, scene.caption, 15, muted);
    y += row_title;
    const double width = panel_width(scene);
    const Rect left{margin, y, width, panel}, middle{margin + width + gap, y, width, panel};
    const auto w = static_cast<std::int64_t>(width), h = static_cast<std::int64_t>(panel);
    const media::Image image = resample(scene.image, w, h, Filter::smooth);
    canvas.picture(static_cast<std::int64_t>(left.x), static_cast<std::int64_t>(left.y), image);
    overlay(canvas, scene, image, middle);
    marks(canvas, scene, left, middle);
    small_heatmaps(canvas, scene, middle.right() + gap, y);
  }

  void marks(Canvas& canvas, const Scene& scene, const Rect& left, const Rect& middle) const {
    canvas.clip(left);
    Places places{left, {}};
    for (const Mark& mark : scene.marks) {
      const Point p = place(scene, mark, left);
      places.taken.push_back({p.x - 8, p.y - 8, 16, 16});
    }
    for (const Mark& mark : scene.marks) {
      if (!is_peak(mark)) truth(canvas, scene, mark, places);
    }
    for (const Mark& mark : scene.marks) {
      if (is_peak(mark)) peak(canvas, scene, mark, places);
    }
    canvas.clip(middle);
    for (const Mark& mark : scene.marks) {
      if (!is_peak(mark)) continue;
      const Point p = place(scene, mark, middle);
      canvas.ring(p, 14, 3, colors::black, 0.5);
      canvas.ring(p, 14, 1.8, color_of(mark.kind));
    }
    canvas.clip();
  }

  static Point place(const Scene& scene, const Mark& mark, const Rect& rect) {
    return {rect.x + (mark.x + 0.5) * rect.width / static_cast<double>(scene.image.width),
            rect.y + (mark.y + 0.5) * rect.height / static_cast<double>(scene.image.height)};
  }

  /// Around an object, wide enough to leave it visible.
  double circle_radius(const Scene& scene) const {
    return std::clamp(2.4 * figure_.match_radius * panel / static_cast<double>(scene.image.height), 14.0, panel / 8);
  }

  static void chip_dot(Canvas& canvas, Point p, Color color, double radius) {
    canvas.disc(p, radius + 1.5, colors::white);
    canvas.disc(p, radius, color);
  }

  /// Text on a rounded box beside `p`, where it covers neither an earlier box nor a mark, if there is such a place.
  void chip(Canvas& canvas, Point p, const std::string& text, Color color, Color text_color, double circle,
            Places& places) const {
    const double width = bold_.width(text, 12) + 8, height = 16;
    const double reach = 0.75 * circle + 3;  // where the circle's diagonal ends
    const double right = p.x + reach, left = p.x - reach - width, above = p.y - reach - height / 2,
                 below = p.y + reach - height / 2;
    const std::array<Rect, 6> candidates{{{right, above, width, height},
                                          {left, above, width, height},
                                          {right, below, width, height},
                                          {left, below, width, height},
                                          {p.x - width / 2, p.y - circle - height - 4, width, height},
                                          {p.x - width / 2, p.y + circle + 4, width, height}}};
    const auto best = std::min_element(candidates.begin(), candidates.end(), [&](const Rect& a, const Rect& b) {
      return places.conflicts(a) < places.conflicts(b);
    });
    Rect box = *best;
    box.x = std::round(std::clamp(box.x, places.panel.x + 2, places.panel.right() - width - 2));
    box.y = std::round(std::clamp(box.y, places.panel.y + 2, places.panel.bottom() - height - 2));
    places.taken.push_back(box);
    canvas.fill({box.x - 1, box.y - 1, width + 2, height + 2}, colors::white, 0.85, 5);
    canvas.fill(box, color, 1, 4);
    draw_text(canvas, bold_, {box.x + 4, box.y + 12}, text, 12, text_color);
  }

  void truth(Canvas& canvas, const Scene& scene, const Mark& mark, Places& places) const {
    const Point p = place(scene, mark, places.panel);
    const double radius = circle_radius(scene);
    const bool missed = mark.kind == Mark::Kind::missed;
    canvas.ring(p, radius, 3.6, colors::black, 0.5);
    canvas.ring(p, radius, 1.8, color_of(mark.kind));
    if (missed)
      chip(canvas, p, figure_.classes[static_cast<std::size_t>(mark.class_index)] + " missed", amber, ink, radius,
           places);
  }

  void peak(Canvas& canvas, const Scene& scene, const Mark& mark, Places& places) const {
    const Point p = place(scene, mark, places.panel);
    chip_dot(canvas, p, color_of(mark.kind), 3);
    const std::string& name = figure_.classes[static_cast<std::size_t>(mark.class_index)];
    chip(canvas, p, fmt::format("{}  {:.2f}", name, mark.score), color_of(mark.kind), colors::white,
         circle_radius(scene), places);
  }

  /// The darkened grey image, with the maximum over all classes in the colours of the map where it is not near 0.
  void overlay(Canvas& canvas, const Scene& scene, const media::Image& image, const Rect& rect) const {
    const std::size_t plane = static_cast<std::size_t>(scene.rows * scene.columns);
    std::vector<float> largest(plane, 0.0f);
    for (std::size_t i = 0; i < scene.heatmaps.size(); ++i)
      largest[i % plane] = std::max(largest[i % plane], scene.heatmaps[i]);
    const auto scaled = resample(largest, scene.columns, scene.rows, 1, image.width, image.height, Filter::smooth);
    for (std::int64_t y = 0; y < image.height; ++y) {
      for (std::int64_t x = 0; x < image.width; ++x) {
        const std::uint8_t* p = image.at(x, y);
        const double grey = 0.62 * (0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]);
        const double value = scaled[static_cast<std::size_t>(y * image.width + x)];
        const auto level = static_cast<std::uint8_t>(grey);
        const auto column = static_cast<std::int64_t>(rect.x) + x, line = static_cast<std::int64_t>(rect.y) + y;
        canvas.blend(column, line, {level, level, level}, 1);
        canvas.blend(column, line, heat(value), std::clamp(2.2 * value, 0.0, 0.95));
      }
    }
  }

  void small_heatmaps(Canvas& canvas, const Scene& scene, double left, double top) const {
    const double width = cell_width(scene), height = std::floor(grid_.cell_height());
    const std::size_t plane = static_cast<std::size_t>(scene.rows * scene.columns);
    for (int c = 0; c < static_cast<int>(figure_.classes.size()); ++c) {
      const int column = c % grid_.columns, row = c / grid_.columns;
      const Rect rect{left + column * (width + 8),
                      std::round(top + row * (grid_.cell_height() + caption_height + 8)) + caption_height, width,
                      height};
      const std::span<const float> values =
          std::span(scene.heatmaps).subspan(static_cast<std::size_t>(c) * plane, plane);
      const float largest = *std::max_element(values.begin(), values.end());
      draw_text(canvas, bold_, {rect.x, rect.y - 5}, figure_.classes[static_cast<std::size_t>(c)], 14, ink);
      draw_text(canvas, regular_, {rect.right(), rect.y - 5}, fmt::format("max {:.2f}", largest), 12,
                largest >= figure_.threshold ? ink : muted, Align::right);
      heatmap(canvas, values, scene, rect);
      for (const Mark& mark : scene.marks) {
        if (mark.class_index != c || mark.kind == Mark::Kind::truth) continue;
        canvas.ring(place(scene, mark, rect), 9, 1.6, color_of(mark.kind));
      }
    }
  }

  static void heatmap(Canvas& canvas, std::span<const float> values, const Scene& scene, const Rect& rect) {
    const auto w = static_cast<std::int64_t>(rect.width), h = static_cast<std::int64_t>(rect.height);
    const auto scaled = resample(values, scene.columns, scene.rows, 1, w, h, Filter::smooth);
    for (std::int64_t y = 0; y < h; ++y) {
      for (std::int64_t x = 0; x < w; ++x) {
        canvas.blend(static_cast<std::int64_t>(rect.x) + x, static_cast<std::int64_t>(rect.y) + y,
                     heat(scaled[static_cast<std::size_t>(y * w + x)]), 1);
      }
    }
  }

  const SceneFigure& figure_;
  const Font& regular_;
  const Font& bold_;
  Grid grid_;
};

}  // namespace

media::Image draw_scenes(const SceneFigure& figure, const Font& regular, const Font& bold) {
  return Painter(figure, regular, bold).paint();
}

}  // namespace unisono::figure
