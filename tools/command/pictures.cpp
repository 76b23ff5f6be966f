#include "command/pictures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "figure/font.hpp"

namespace unisono::command {
namespace {

std::span<const float> item(const Tensor32& tensor, std::int64_t index) {
  const std::size_t size = tensor.value.size() / static_cast<std::size_t>(tensor.shape[0]);
  return std::span(tensor.value).subspan(static_cast<std::size_t>(index) * size, size);
}

/// Pixels of the image per pixel of the heatmap, along x and y.
std::pair<double, double> strides(const Tensor32& heatmaps, const media::Image& image) {
  return {static_cast<double>(image.width) / static_cast<double>(heatmaps.shape[3]),
          static_cast<double>(image.height) / static_cast<double>(heatmaps.shape[2])};
}

std::string caption(const Detections& d) {
  if (!d.objects) return fmt::format("{} peaks", d.peaks.size());
  const auto found = std::count(d.matching.found.begin(), d.matching.found.end(), true);
  const auto wrong = std::count(d.matching.right.begin(), d.matching.right.end(), false);
  std::string text =
      d.objects->empty() ? "nothing to be found" : fmt::format("{} of {} found", found, d.objects->size());
  if (wrong > 0) text += fmt::format(", {} wrong", wrong);
  return text;
}

}  // namespace

Detections detect(const Tensor32& heatmaps, std::int64_t index, const HeatmapDescription& description,
                  const media::Image& image, std::optional<std::vector<Object>> truth) {
  Detections d;
  d.peaks = find_peaks(item(heatmaps, index), static_cast<int>(heatmaps.shape[1]), heatmaps.shape[2], heatmaps.shape[3],
                       description.threshold, description.nms_radius);
  d.objects = std::move(truth);
  if (!d.objects) return d;
  const auto [sx, sy] = strides(heatmaps, image);
  std::vector<Object> objects = *d.objects;  // in pixels of the heatmap
  for (Object& o : objects) o = {o.class_index, (o.x + 0.5) / sx - 0.5, (o.y + 0.5) / sy - 0.5};
  d.matching = match(d.peaks, objects, description.match_radius / std::max(sx, sy));
  return d;
}

figure::Scene make_scene(const LoadedImage& image, const Tensor32& heatmaps, std::int64_t index, const Detections& d) {
  using figure::Mark;
  const auto values = item(heatmaps, index);
  figure::Scene scene{.name = image.name,
                      .image = media::to_rgb(image.image),
                      .heatmaps = {values.begin(), values.end()},
                      .rows = heatmaps.shape[2],
                      .columns = heatmaps.shape[3],
                      .marks = {},
                      .caption = caption(d)};
  if (d.objects) {
    for (std::size_t i = 0; i < d.objects->size(); ++i) {
      const Object& o = (*d.objects)[i];
      scene.marks.push_back({d.matching.found[i] ? Mark::Kind::truth : Mark::Kind::missed, o.x, o.y, o.class_index, 0});
    }
  }
  const auto [sx, sy] = strides(heatmaps, image.image);
  for (std::size_t i = 0; i < d.peaks.size(); ++i) {
    const Peak& p = d.peaks[i];
    const Mark::Kind kind = !d.objects            ? Mark::Kind::plain
                            : d.matching.right[i] ? Mark::Kind::right
                                                  : Mark::Kind::wrong;
    scene.marks.push_back({kind, (static_cast<double>(p.x) + 0.5) * sx - 0.5,
                           (static_cast<double>(p.y) + 0.5) * sy - 0.5, p.class_index, p.score});
  }
  return scene;
}

void write_figure(const std::filesystem::path& path, const figure::SceneFigure& figure) {
  const auto regular = figure::system_font(figure::Weight::regular), bold = figure::system_font(figure::Weight::bold);
  media::write_png(path, figure::draw_scenes(figure, *regular, *bold));
}

}  // namespace unisono::command
