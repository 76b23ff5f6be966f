#pragma once
/// A raster to draw on. Coordinates are pixels; (0, 0) is the top left corner of the top left pixel, whose centre is
/// (0.5, 0.5). Shapes have smooth edges: a pixel takes the share of the colour that the shape covers of it. What lies
/// outside the canvas is clipped.

#include <cstdint>

#include "figure/color.hpp"
#include "media/image.hpp"

namespace unisono::figure {

struct Point {
  double x = 0, y = 0;
};

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  Point centre() const { return {x + width / 2, y + height / 2}; }
};

class Canvas {
 public:
  Canvas(std::int64_t width, std::int64_t height, Color background);

  const media::Image& image() const { return image_; }
  std::int64_t width() const { return image_.width; }
  std::int64_t height() const { return image_.height; }
  Color at(std::int64_t x, std::int64_t y) const;

  /// From now on only whole pixels within `rect` are drawn on; without a rectangle, all.
  void clip(const Rect& rect);
  void clip();

  /// Mixes `coverage` (0 to 1) of the colour into one pixel.
  void blend(std::int64_t x, std::int64_t y, Color color, double coverage);

  void fill(const Rect& rect, Color color, double alpha = 1, double corner_radius = 0);
  void frame(const Rect& rect, double thickness, Color color, double alpha = 1);
  void disc(Point centre, double radius, Color color, double alpha = 1);
  void ring(Point centre, double radius, double thickness, Color color, double alpha = 1);
  /// With round ends.
  void line(Point from, Point to, double thickness, Color color, double alpha = 1);
  /// Two diagonals of a square with sides of 2·reach.
  void cross(Point centre, double reach, double thickness, Color color, double alpha = 1);
  /// Copies an RGB image to whole pixels from (x, y) on.
  void picture(std::int64_t x, std::int64_t y, const media::Image& rgb);

 private:
  /// Draws all pixels of a box by their signed distance from the shape's edge (negative inside).
  template <class Distance>
  void shape(double left, double top, double right, double bottom, Color color, double alpha, const Distance& distance);

  media::Image image_;
  std::int64_t clip_left_ = 0, clip_top_ = 0, clip_right_ = 0, clip_bottom_ = 0;
};

}  // namespace unisono::figure
