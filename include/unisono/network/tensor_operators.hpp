#pragma once
/// Operators on tensors of any rank and element type: arithmetic, choices, reductions and moves. They are part of no
/// region.

#include <cstdint>
#include <vector>

#include "unisono/dtype.hpp"
#include "unisono/network/shape.hpp"

namespace unisono {

/// The functions of Map: the rows of unisono/network/maps.def, which defines them.
enum class MapOp : std::uint8_t {
#define UNISONO_MAP(NAME, ...) NAME,
#define UNISONO_MAP_OTHER(NAME, ...) NAME,
#include "unisono/network/maps.def"
};

enum class ReduceOp : std::uint8_t { sum, mean, max, min, prod, l1, l2, sum_square, log_sum, log_sum_exp };

enum class PadMode : std::uint8_t { constant, edge, reflect, wrap };

/// Cubic: operators::Resample only.
enum class ResizeMode : std::uint8_t { nearest, linear, cubic };

/// The position of output element i of an axis in the input, with scale = output/input extent (ONNX Resize).
enum class ResizeCoordinates : std::uint8_t {
  half_pixel,          ///< (i + 0.5)/scale − 0.5
  pytorch_half_pixel,  ///< the same, but 0 if the output has one element
  asymmetric,          ///< i/scale
  align_corners,       ///< i·(input − 1)/(output − 1); 0 if the output has one element
  // operators::Resample only
  half_pixel_symmetric,  ///< half_pixel, centred if the output's extent is not input·scale
  crop_and_resize,       ///< within the region of interest
};

/// How ResizeMode::nearest rounds a coordinate.
enum class NearestRounding : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };

namespace operators {

/// An elementwise function of operands of any type, which broadcast as in NumPy.
struct Map {
  MapOp op = MapOp::add;
  DType to = DType::f32;  ///< the target of a cast
  bool operator==(const Map&) const = default;
};

/// Reduces over these axes (empty: all). Floats are summed in float64. Integers support sum, max, min and prod.
struct Reduce {
  ReduceOp op = ReduceOp::sum;
  std::vector<int> axes;
  bool keep = true;  ///< whether reduced axes stay, with an extent of 1
  bool operator==(const Reduce&) const = default;
};

/// x → i64: the index of the largest (or smallest) element along an axis; of ties the first, or the last.
struct ArgReduce {
  int axis = 0;
  bool smallest = false, keep = true, last = false;
  bool operator==(const ArgReduce&) const = default;
};

/// Along axes[i]: from starts[i] to before ends[i] in steps[i]. Negative ones count from the end, and positions outside
/// are clamped (NumPy's rules). With `parts`, starts and ends count parts of one axis of e elements, of ⌈e/parts⌉
/// elements each except the last, which has the remainder; a step above 1 is the length of a part.
struct Slice {
  std::vector<std::int64_t> starts, ends, steps;
  std::vector<int> axes;
  std::int64_t parts = 0;
  bool operator==(const Slice&) const = default;
};

/// x, indices (i32 or i64): the indexed slices along an axis. Negative indices count from the end. An index outside the
/// axis is a UserError of the run.
struct Gather {
  int axis = 0;
  bool operator==(const Gather&) const = default;
};

struct Tile {
  std::vector<std::int64_t> repeats;  ///< one per axis
  bool operator==(const Tile&) const = default;
};

/// x (N,C,H,W) → (N,C/block²,H·block,W·block), or the inverse. Channel order depth-column-row, or column-row-depth.
struct DepthToSpace {
  std::int64_t block = 2;
  bool column_row_depth = false;
  bool inverse = false;  ///< SpaceToDepth
  bool operator==(const DepthToSpace&) const = default;
};

/// x, like → x with the shape of `like`, whose elements are not read.
struct ReshapeLike {
  bool operator==(const ReshapeLike&) const = default;
};

/// x → i64: the extents [begin, end) of x.
struct ShapeOf {
  int begin = 0, end = 0;
  bool operator==(const ShapeOf&) const = default;
};

/// a (…,M,K), b (…,K,N) → (…,M,N); the other axes broadcast.
struct MatMul {
  bool operator==(const MatMul&) const = default;
};

/// Convolution, or transposed convolution, of volumes: x (N,C,D,H,W), w (K,C/groups,…) or (C,K/groups,…)[, bias (K)].
struct Conv3d {
  std::vector<std::int64_t> stride, dilation, before, after, output_pad;  ///< three each
  std::int64_t groups = 1;
  bool transposed = false;
  bool operator==(const Conv3d&) const = default;
};

/// Pools windows of x (N,C,…) with any number of further axes; see Pool2d. With `indices` the result is i64: the index
/// of the window's largest element in all of x, row-major, or column-major within an image.
struct PoolNd {
  bool average = false;
  std::vector<std::int64_t> kernel, stride, dilation, before, after;
  bool ceil_mode = false, count_pad = false;
  bool indices = false, column_major = false;
  bool operator==(const PoolNd&) const = default;
};

/// x[, like]: ONNX's Resize in full, for any number of axes; f32.
struct Resample {
  ResizeMode mode = ResizeMode::nearest;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  NearestRounding rounding = NearestRounding::round_prefer_floor;
  std::vector<double> scales;       ///< one per axis; 0: given by sizes
  std::vector<std::int64_t> sizes;  ///< one per axis; 0: given by scales; −1: that axis of `like`
  /// The sizes are the scaled extents, rounded: sizes give the number of elements, scales their positions.
  bool rounded_sizes = false;
  std::vector<double> roi_begin, roi_end;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
  bool operator==(const Resample&) const = default;
};

}  // namespace operators

}  // namespace unisono
