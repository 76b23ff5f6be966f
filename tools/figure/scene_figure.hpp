#pragma once
/// The picture of detections: for each scene a row with the image, its truth and the peaks that were found; the maximum
/// over all classes laid over the image; and one small heatmap a class.

#include <cstdint>
#include <string>
#include <vector>

#include "figure/canvas.hpp"
#include "figure/font.hpp"

namespace unisono::figure {

/// A labelled place in an image, in pixels from the centre of the top left one.
struct Mark {
  enum class Kind : std::uint8_t {
    truth,   ///< an object that was found
    missed,  ///< an object that was not
    right,   ///< a peak that finds an object
    wrong,   ///< a peak that finds none
    plain,   ///< a peak, where no truth is known
  };
  Kind kind = Kind::plain;
  double x = 0, y = 0;
  int class_index = 0;
  double score = 0;  ///< the heatmap's value at a peak
};

struct Scene {
  std::string name;
  media::Image image;           ///< RGB
  std::vector<float> heatmaps;  ///< (classes, rows, columns), 0 to 1
  std::int64_t rows = 0, columns = 0;
  std::vector<Mark> marks;
  std::string caption;  ///< behind the name, such as "5 of 5 found"
};

struct SceneFigure {
  std::string title;
  std::vector<std::string> lines;    ///< below the title
  std::vector<std::string> classes;  ///< names
  double threshold = 0;              ///< least score of a peak; shown on the colour bar
  double match_radius = 0;           ///< in pixels of the image: radius of the circles around truth
  std::vector<Scene> scenes;
};

/// Draws the figure. Throws UserError if it would have more than 64 Mpixel.
media::Image draw_scenes(const SceneFigure& figure, const Font& regular, const Font& bold);

}  // namespace unisono::figure
