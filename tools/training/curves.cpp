#include "training/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "figure/canvas.hpp"
#include "figure/font.hpp"

namespace unisono::training {

namespace {

using figure::Align;
using figure::Canvas;
using figure::Color;
using figure::Point;

constexpr Color ink{40, 40, 40}, grid{225, 225, 225}, training_color{40, 90, 180}, validation_color{200, 80, 30};
constexpr figure::Rect plot{90, 60, 780, 380};

struct Series {
  std::vector<Point> points;  // step, loss
  Color color;
  const char* name;
  bool dots;
};

// From data to the canvas
class Axes {
 public:
  explicit Axes(const std::vector<Series>& all) {
    double low = 0, high = 0;
    bool first = true;
    for (const Series& s : all)
      for (const Point& p : s.points) {
        last_ = std::max(last_, p.x);
        low = first ? p.y : std::min(low, p.y), high = first ? p.y : std::max(high, p.y);
        first = false;
      }
    is_log_ = low > 0;
    low_ = scaled(low), high_ = scaled(high);
    const double margin = high_ > low_ ? 0.05 * (high_ - low_) : is_log_ ? 0.1 : std::max(1e-6, 0.1 * std::abs(high_));
    low_ -= margin, high_ += margin;
  }
  Point at(Point p) const { return {plot.x + plot.width * p.x / last_, height_of(scaled(p.y))}; }
  double height_of(double y) const { return plot.bottom() - plot.height * (y - low_) / (high_ - low_); }
  double last() const { return last_; }
  // What stands at a part of the height
  double value(double part) const {
    const double y = low_ + part * (high_ - low_);
    return is_log_ ? std::pow(10, y) : y;
  }

 private:
  double scaled(double y) const { return is_log_ ? std::log10(y) : y; }
  double last_ = 1, low_ = 0, high_ = 1;
  bool is_log_ = false;
};

std::vector<Series> series_of(const std::vector<LogLine>& lines) {
  std::vector<Series> all{{{}, training_color, "training", false}, {{}, validation_color, "validation", true}};
  for (const LogLine& line : lines) {
    if (line.loss && std::isfinite(*line.loss)) all[0].points.push_back({static_cast<double>(line.step), *line.loss});
    if (line.validation_loss && std::isfinite(*line.validation_loss))
      all[1].points.push_back({static_cast<double>(line.step), *line.validation_loss});
  }
  std::erase_if(all, [](const Series& s) { return s.points.empty(); });
  return all;
}

void draw_axes(Canvas& canvas, const Axes& axes, const figure::Font& font) {
  constexpr int parts = 5;
  for (int i = 0; i <= parts; ++i) {
    const double part = static_cast<double>(i) / parts, y = plot.bottom() - part * plot.height,
                 x = plot.x + part * plot.width;
    canvas.line({plot.x, y}, {plot.right(), y}, 1, grid);
    draw_text(canvas, font, {plot.x - 8, y + 4}, fmt::format("{:.3g}", axes.value(part)), 13, ink, Align::right);
    draw_text(canvas, font, {x, plot.bottom() + 20}, fmt::format("{:.0f}", part * axes.last()), 13, ink, Align::centre);
  }
  canvas.frame(plot, 1, ink);
  draw_text(canvas, font, {plot.centre().x, plot.bottom() + 42}, "step", 13, ink, Align::centre);
}

}  // namespace

media::Image draw_curves(const std::vector<LogLine>& lines, const std::string& title) {
  Canvas canvas(900, 500, figure::colors::white);
  const auto font = figure::stroke_font(figure::Weight::regular), bold = figure::stroke_font(figure::Weight::bold);
  draw_text(canvas, *bold, {plot.x, 36}, title, 17, ink);
  const std::vector<Series> all = series_of(lines);
  const Axes axes(all);
  draw_axes(canvas, axes, *font);
  double x = plot.right() - 10;
  for (const Series& s : all) {
    for (std::size_t i = 1; i < s.points.size(); ++i)
      canvas.line(axes.at(s.points[i - 1]), axes.at(s.points[i]), 1.6, s.color);
    if (s.dots || s.points.size() == 1)
      for (const Point& p : s.points) canvas.disc(axes.at(p), 3.5, s.color);
    const std::string name = fmt::format("{} {:.4g}", s.name, s.points.back().y);
    draw_text(canvas, *font, {x, plot.y + 20}, name, 14, s.color, Align::right);
    x -= font->width(name, 14) + 24;
  }
  return canvas.image();
}

}  // namespace unisono::training
