#include "command/detection.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::command {
namespace {

/// One plane of (height, width).
struct Plane {
  const float* values;
  std::int64_t height, width;

  /// True if no pixel of the window is larger, and none before (x, y) in row order is equal.
  bool is_peak(std::int64_t x, std::int64_t y, int radius) const {
    const float centre = values[y * width + x];
    for (std::int64_t v = std::max<std::int64_t>(0, y - radius); v <= std::min(height - 1, y + radius); ++v) {
      for (std::int64_t u = std::max<std::int64_t>(0, x - radius); u <= std::min(width - 1, x + radius); ++u) {
        const float other = values[v * width + u];
        if (other > centre || (other == centre && (v < y || (v == y && u < x)))) return false;
      }
    }
    return true;
  }
};

}  // namespace

std::vector<Peak> find_peaks(std::span<const float> heatmaps, int classes, std::int64_t height, std::int64_t width,
                             double threshold, int radius) {
  std::vector<Peak> peaks;
  for (int c = 0; c < classes; ++c) {
    const Plane plane{heatmaps.data() + c * height * width, height, width};
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const float score = plane.values[y * width + x];
        if (score >= threshold && plane.is_peak(x, y, radius)) peaks.push_back({c, x, y, score});
      }
    }
  }
  std::stable_sort(peaks.begin(), peaks.end(), [](const Peak& a, const Peak& b) { return a.score > b.score; });
  return peaks;
}

Matching match(const std::vector<Peak>& peaks, const std::vector<Object>& objects, double radius) {
  Matching matching{std::vector<bool>(peaks.size(), false), std::vector<bool>(objects.size(), false)};
  for (std::size_t p = 0; p < peaks.size(); ++p) {
    double nearest = radius;
    std::size_t which = objects.size();
    for (std::size_t o = 0; o < objects.size(); ++o) {
      if (matching.found[o] || objects[o].class_index != peaks[p].class_index) continue;
      const double distance =
          std::hypot(objects[o].x - static_cast<double>(peaks[p].x), objects[o].y - static_cast<double>(peaks[p].y));
      if (distance < nearest || (distance == nearest && which == objects.size())) {
        nearest = distance;
        which = o;
      }
    }
    if (which == objects.size()) continue;
    matching.right[p] = true;
    matching.found[which] = true;
  }
  return matching;
}

void Score::add(const Matching& matching) {
  hits += static_cast<int>(std::count(matching.right.begin(), matching.right.end(), true));
  peaks += static_cast<int>(matching.right.size());
  objects += static_cast<int>(matching.found.size());
}

}  // namespace unisono::command
