#pragma once
/// Resizing of images in float64, after the definition of ONNX Resize (opset 19, without antialias).

#include <array>
#include <cstdint>

#include "reference/reference.hpp"
#include "unisono/contraction.hpp"

namespace unisono::reference {

/// Where output pixel i lies in the input, x, for L input pixels, R output pixels and the scale s.
enum class CoordinateMode : std::uint8_t {
  half_pixel,            ///< (i + ½)/s − ½
  half_pixel_symmetric,  ///< the same, with the centres of both images laid on each other where R ≠ s·L
  pytorch_half_pixel,    ///< the same as half_pixel, but 0 if R = 1
  align_corners,         ///< i·(L − 1)/(R − 1); 0 if R = 1
  asymmetric,            ///< i/s
  tf_crop_and_resize,    ///< from roi[0]·(L − 1) to roi[1]·(L − 1); outside the image `extrapolation_value`
};

enum class NearestMode : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };

struct Resize {
  enum class Mode : std::uint8_t { nearest, linear, cubic };
  Mode mode = Mode::nearest;
  std::array<std::int64_t, 2> size{1, 1};  ///< output rows and columns
  /// s along rows and columns; 0: output over input extent. ONNX gives it where the size is floor(s·L).
  std::array<double, 2> scale{0, 0};
  CoordinateMode coordinates = CoordinateMode::half_pixel;
  NearestMode nearest = NearestMode::round_prefer_floor;
  double cubic_a = -0.75;                 ///< Keys' coefficient
  bool exclude_outside = false;           ///< cubic: taps outside the image weigh nothing, the others are scaled to 1
  std::array<double, 4> roi{0, 0, 1, 1};  ///< tf_crop_and_resize: top, left, bottom, right, relative
  double extrapolation_value = 0;
  Layout layout = Layout::nhwc;  ///< the input's
};

/// Resizes `x`, (N,H,W,C) or (N,C,H,W) after resize.layout. The result has axes [m,n]: rows (N,P,Q), columns C.
/// Coordinates are computed in float64, as written above. Pixels beyond an edge repeat the edge. Throws UserError for a
/// size below 1, a scale that is not a positive number, or a wrong image.
Values resize(const Resize& resize, const ConstTensorView& x, const ErrorModel& model = {});

}  // namespace unisono::reference
