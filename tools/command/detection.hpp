#pragma once
/// From heatmaps to detections, and from detections to precision and recall.

#include <cstdint>
#include <span>
#include <vector>

namespace unisono::command {

/// A peak of the heatmap of one class; x and y in pixels of the heatmap.
struct Peak {
  int class_index = 0;
  std::int64_t x = 0, y = 0;
  float score = 0;
};

/// Pixels of at least `threshold` that are the largest of their window of (2·radius + 1)² pixels, the highest first. Of
/// equal values in a window the first in row order counts, so that a plateau gives one peak; NaN is never one.
/// `heatmaps` are (classes, height, width).
std::vector<Peak> find_peaks(std::span<const float> heatmaps, int classes, std::int64_t height, std::int64_t width,
                             double threshold, int radius);

/// An object in an image; x and y in pixels from the centre of the top left one.
struct Object {
  int class_index = 0;
  double x = 0, y = 0;
};

struct Matching {
  std::vector<bool> right;  ///< for each peak: it finds an object
  std::vector<bool> found;  ///< for each object: a peak finds it
};

/// Goes through the peaks in their order. Each finds the nearest object of its class within `radius` (inclusive) that
/// no earlier peak found.
Matching match(const std::vector<Peak>& peaks, const std::vector<Object>& objects, double radius);

/// Counts over several images.
struct Score {
  int hits = 0, peaks = 0, objects = 0;
  void add(const Matching& matching);
  double precision() const { return peaks == 0 ? 0 : static_cast<double>(hits) / peaks; }
  double recall() const { return objects == 0 ? 0 : static_cast<double>(hits) / objects; }
};

}  // namespace unisono::command
