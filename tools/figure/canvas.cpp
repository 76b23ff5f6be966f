#include "figure/canvas.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::figure {

Canvas::Canvas(std::int64_t width, std::int64_t height, Color background)
    : image_(media::make_image(width, height, 3)) {
  for (std::size_t i = 0; i < image_.pixels.size(); i += 3) {
    image_.pixels[i] = background.r;
    image_.pixels[i + 1] = background.g;
    image_.pixels[i + 2] = background.b;
  }
  clip();
}

void Canvas::clip(const Rect& rect) {
  const auto within = [](double x, std::int64_t end) {
    return static_cast<std::int64_t>(std::clamp(x, 0.0, static_cast<double>(end)));
  };
  clip_left_ = within(std::ceil(rect.x), image_.width);
  clip_right_ = within(std::floor(rect.right()), image_.width);
  clip_top_ = within(std::ceil(rect.y), image_.height);
  clip_bottom_ = within(std::floor(rect.bottom()), image_.height);
}

void Canvas::clip() { clip({0, 0, static_cast<double>(image_.width), static_cast<double>(image_.height)}); }

Color Canvas::at(std::int64_t x, std::int64_t y) const {
  const std::uint8_t* p = image_.at(x, y);
  return {p[0], p[1], p[2]};
}

void Canvas::blend(std::int64_t x, std::int64_t y, Color color, double coverage) {
  if (x < clip_left_ || y < clip_top_ || x >= clip_right_ || y >= clip_bottom_) return;
  std::uint8_t* p = image_.at(x, y);
  const std::uint8_t source[3] = {color.r, color.g, color.b};
  for (int c = 0; c < 3; ++c) p[c] = static_cast<std::uint8_t>(std::lround(p[c] + coverage * (source[c] - p[c])));
}

template <class Distance>
void Canvas::shape(double left, double top, double right, double bottom, Color color, double alpha,
                   const Distance& distance) {
  const auto clip = [](double x, std::int64_t end) {
    return static_cast<std::int64_t>(std::clamp(x, 0.0, static_cast<double>(end)));
  };
  const std::int64_t x0 = clip(std::floor(left - 1), image_.width), x1 = clip(std::ceil(right + 1), image_.width);
  const std::int64_t y0 = clip(std::floor(top - 1), image_.height), y1 = clip(std::ceil(bottom + 1), image_.height);
  for (std::int64_t y = y0; y < y1; ++y) {
    for (std::int64_t x = x0; x < x1; ++x) {
      const double d = distance(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      const double coverage = std::clamp(0.5 - d, 0.0, 1.0);
      if (coverage > 0) blend(x, y, color, alpha * coverage);
    }
  }
}

void Canvas::fill(const Rect& r, Color color, double alpha, double corner_radius) {
  const double radius = std::min({corner_radius, r.width / 2, r.height / 2});
  const Point c = r.centre();
  shape(r.x, r.y, r.right(), r.bottom(), color, alpha, [&](double x, double y) {
    const double dx = std::abs(x - c.x) - (r.width / 2 - radius), dy = std::abs(y - c.y) - (r.height / 2 - radius);
    return std::hypot(std::max(dx, 0.0), std::max(dy, 0.0)) + std::min(std::max(dx, dy), 0.0) - radius;
  });
}

void Canvas::frame(const Rect& r, double thickness, Color color, double alpha) {
  const double t = thickness;
  fill({r.x, r.y, r.width, t}, color, alpha);
  fill({r.x, r.bottom() - t, r.width, t}, color, alpha);
  fill({r.x, r.y + t, t, r.height - 2 * t}, color, alpha);
  fill({r.right() - t, r.y + t, t, r.height - 2 * t}, color, alpha);
}

void Canvas::disc(Point c, double radius, Color color, double alpha) {
  shape(c.x - radius, c.y - radius, c.x + radius, c.y + radius, color, alpha,
        [&](double x, double y) { return std::hypot(x - c.x, y - c.y) - radius; });
}

void Canvas::ring(Point c, double radius, double thickness, Color color, double alpha) {
  const double outer = radius + thickness / 2;
  shape(c.x - outer, c.y - outer, c.x + outer, c.y + outer, color, alpha,
        [&](double x, double y) { return std::abs(std::hypot(x - c.x, y - c.y) - radius) - thickness / 2; });
}

void Canvas::line(Point a, Point b, double thickness, Color color, double alpha) {
  const double half = thickness / 2, dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
  shape(std::min(a.x, b.x) - half, std::min(a.y, b.y) - half, std::max(a.x, b.x) + half, std::max(a.y, b.y) + half,
        color, alpha, [&](double x, double y) {
          const double t = length2 > 0 ? std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length2, 0.0, 1.0) : 0;
          return std::hypot(x - a.x - t * dx, y - a.y - t * dy) - half;
        });
}

void Canvas::cross(Point c, double reach, double thickness, Color color, double alpha) {
  line({c.x - reach, c.y - reach}, {c.x + reach, c.y + reach}, thickness, color, alpha);
  line({c.x - reach, c.y + reach}, {c.x + reach, c.y - reach}, thickness, color, alpha);
}

void Canvas::picture(std::int64_t left, std::int64_t top, const media::Image& rgb) {
  for (std::int64_t y = 0; y < rgb.height; ++y) {
    for (std::int64_t x = 0; x < rgb.width; ++x) {
      const std::uint8_t* p = rgb.at(x, y);
      blend(left + x, top + y, {p[0], p[1], p[2]}, 1);
    }
  }
}

}  // namespace unisono::figure
