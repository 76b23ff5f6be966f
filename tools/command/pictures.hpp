#pragma once
/// From outputs of a network to the figure of detections.

#include <optional>
#include <string>
#include <vector>

#include "command/detection.hpp"
#include "command/execution.hpp"
#include "command/images.hpp"
#include "command/model.hpp"
#include "figure/scene_figure.hpp"

namespace unisono::command {

/// The peaks of one image, and what they find if that is known.
struct Detections {
  std::vector<Peak> peaks;
  std::optional<std::vector<Object>> objects;  ///< the truth
  Matching matching;                           ///< if there is a truth
};

/// Peaks of item `index` of `heatmaps` (N,C,H,W), matched with the truth. Truth is in pixels of the image as the
/// network sees it; peaks are in pixels of the heatmap.
Detections detect(const Tensor32& heatmaps, std::int64_t index, const HeatmapDescription& description,
                  const media::Image& image, std::optional<std::vector<Object>> truth = {});

/// One row of the figure.
figure::Scene make_scene(const LoadedImage& image, const Tensor32& heatmaps, std::int64_t index,
                         const Detections& detections);

/// Draws with a font of this machine, and writes a PNG.
void write_figure(const std::filesystem::path& path, const figure::SceneFigure& figure);

}  // namespace unisono::command
