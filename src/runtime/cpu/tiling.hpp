#pragma once
/// How the rows of the iteration space are cut into strips (one task each) and segments (one partial result of a
/// reduction each).

#include <algorithm>
#include <cstdint>

#include "unisono/contraction.hpp"

namespace unisono::cpu {

/// Output rows [first, first + height) of one image: `height`·width rows of the epilogue.
struct Strip {
  std::int64_t image = 0, first = 0, height = 0;
};

/// Strips never straddle images. A strip consists of whole segments, as many as the others or one more. Segments depend
/// on the extents only, so reductions give the same bits for any number of threads.
class Tiling {
 public:
  /// `reduces`: over rows, so that segments leave results of their own; else they only say where strips may end.
  /// `row_work`: multiply-adds of an output row. A strip of several rows has at most `most_work`, because a run can be
  /// cancelled between two strips.
  Tiling(const Extents& extents, int threads, bool reduces = true, double row_work = 0);
  static constexpr double most_work = 0x1p34;

  const Extents& extents() const { return extents_; }
  /// The height of the highest strips.
  std::int64_t strip_height() const {
    return std::min(extents_.height, ceil_div(segments_per_image(), strips_per_image_) * segment_height_);
  }
  std::int64_t segment_height() const { return segment_height_; }
  std::int64_t strips_per_image() const { return strips_per_image_; }
  std::int64_t segments_per_image() const { return ceil_div(extents_.height, segment_height_); }
  std::int64_t strips() const { return extents_.images * strips_per_image_; }
  std::int64_t segments() const { return extents_.images * segments_per_image(); }
  Strip strip(std::int64_t index) const;
  /// Rows of the epilogue in a segment (the last one of an image may have fewer).
  std::int64_t segment_rows(std::int64_t segment_of_image) const;
  std::int64_t strip_rows() const { return strip_height() * extents_.width; }

  static std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

 private:
  Extents extents_;
  std::int64_t segment_height_ = 1, strips_per_image_ = 1;
};

}  // namespace unisono::cpu
