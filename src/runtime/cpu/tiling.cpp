#include "runtime/cpu/tiling.hpp"

#include <algorithm>

namespace unisono::cpu {

namespace {

// A strip's accumulators take at most a quarter of an L2 cache of 1 MiB, which also holds the filter and the
// strip's input
constexpr std::int64_t strip_bytes = 256 << 10;
// Below this a call of oneDNN costs noticeably more than its arithmetic
constexpr std::int64_t segment_bytes = 32 << 10;
constexpr std::int64_t least_segments = 16;

}  // namespace

Tiling::Tiling(const Extents& extents, int threads, bool reduces, double row_work) : extents_(extents) {
  const std::int64_t row_bytes = extents.width * extents.cols * 4;
  const std::int64_t all_rows = extents.images * extents.height;
  segment_height_ =
      std::clamp<std::int64_t>(std::min(segment_bytes / row_bytes, all_rows / least_segments), 1, extents.height);
  // few columns: at least 32 rows a segment, so that its partial results are small beside it
  const std::int64_t least = std::min(extents.height, ceil_div(32, extents.width));
  if (reduces) segment_height_ = std::max(segment_height_, least);

  const auto bearable =
      static_cast<std::int64_t>(std::clamp(most_work / std::max(row_work, 1.0), 1.0, 0x1p31));  // rows
  segment_height_ = std::min(segment_height_, bearable);

  const std::int64_t segments = segments_per_image();
  const std::int64_t fit = std::max<std::int64_t>(1, strip_bytes / (segment_height_ * row_bytes));  // segments
  std::int64_t strips = ceil_div(segments, std::min(fit, bearable / segment_height_));
  // as many strips as threads, better a multiple; four a thread if they stay high, so that a delayed thread costs
  // little
  const auto wanted = [&](std::int64_t each) { return ceil_div(threads * each, extents.images); };
  const std::int64_t whole = ceil_div(strips * extents.images, threads);
  strips = std::max(strips, wanted(std::min<std::int64_t>(whole, 4)));
  if (extents.height / std::max<std::int64_t>(1, wanted(2)) >= 4) strips = std::max(strips, wanted(2));
  strips_per_image_ = std::clamp<std::int64_t>(strips, 1, segments);
}

Strip Tiling::strip(std::int64_t index) const {
  const std::int64_t i = index % strips_per_image_, segments = segments_per_image();
  const std::int64_t first = i * segments / strips_per_image_ * segment_height_;
  const std::int64_t last = (i + 1) * segments / strips_per_image_ * segment_height_;
  return {index / strips_per_image_, first, std::min(last, extents_.height) - first};
}

std::int64_t Tiling::segment_rows(std::int64_t segment_of_image) const {
  const std::int64_t first = segment_of_image * segment_height_;
  return std::min(segment_height_, extents_.height - first) * extents_.width;
}

}  // namespace unisono::cpu
