#pragma once
/// The mean of a problem's left operand. It differs from image to image, and within an image rises or falls from its
/// first row to its last, so that the tiles of an image have means that lie apart: where their statistics are merged,
/// most of the variance is between them, and a term that is off there shows in the results.

#include <cstdint>

#include "gpu/case.hpp"
#include "unisono/contraction.hpp"

namespace unisono::gpu {

class Trend {
 public:
  explicit Trend(const Case& c) {
    const auto shape = shape_a(c.contraction());
    const Layout layout = c.transposed ? c.transposed->layout : c.conv.layout;
    rows_last_ = c.product ? c.product->transpose_a : layout == Layout::nchw;
    const std::size_t first = rows_last_ && !c.product ? 2 : 1;
    rows_ = c.product ? c.product->m : shape[first] * shape[first + 1];
    of_image_ = element_count(shape) / shape[0];
  }
  /// The trend at element `i`, in the operand's deviations.
  double operator()(std::int64_t i) const {
    const std::int64_t image = i / of_image_, rest = i % of_image_;
    const std::int64_t row = rows_last_ ? rest % rows_ : rest / (of_image_ / rows_);
    const double along = (static_cast<double>(row) + 0.5) / static_cast<double>(rows_) - 0.5;
    return static_cast<double>(image % 3 - 1) * 0.5 + (image % 2 == 0 ? 4 : -4) * along;
  }

 private:
  bool rows_last_ = false;
  std::int64_t rows_ = 1, of_image_ = 1;
};

}  // namespace unisono::gpu
