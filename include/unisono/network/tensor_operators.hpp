#pragma once
/// Operators on tensors of any rank and of any element type: arithmetic, choices, reductions and movement. They run by
/// themselves and are part of no region.

#include <cstdint>
#include <vector>

#include "unisono/dtype.hpp"
#include "unisono/network/shape.hpp"

namespace unisono {

/// What Map computes of each element: the rows of unisono/network/maps.def, which says what each means.
enum class MapOp : std::uint8_t {
#define UNISONO_MAP(NAME, ...) NAME,
#define UNISONO_MAP_OTHER(NAME, ...) NAME,
#include "unisono/network/maps.def"
};

enum class ReduceOp : std::uint8_t { sum, mean, max, min, prod, l1, l2, sum_square, log_sum, log_sum_exp };

enum class PadMode : std::uint8_t { constant, edge, reflect, wrap };

/// Cubic: operators::Resample only.
enum class ResizeMode : std::uint8_t { nearest, linear, cubic };

/// Where output element i of an axis lies in the input, with scale = output/input extent (ONNX Resize).
enum class ResizeCoordinates : std::uint8_t {
  half_pixel,          ///< (i + 0.5)/scale − 0.5
  pytorch_half_pixel,  ///< the same, but 0 if the output has one element
  asymmetric,          ///< i/scale
  align_corners,       ///< i·(input − 1)/(output − 1); 0 if the output has one element
  // operators::Resample only
  half_pixel_symmetric,  ///< half_pixel, centred where the output's extent is not input·scale
  crop_and_resize,       ///< within the region of interest
};

/// How nearest rounds a coordinate.
enum class NearestRounding : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };

namespace operators {

/// Elementwise over operands of any type, which broadcast as in NumPy.
struct Map {
  MapOp op = MapOp::add;
  DType to = DType::f32;  ///< the target of a cast
  bool operator==(const Map&) const = default;
};

/// Over these axes (none: all). Floats are summed in float64; integers know sum, max, min and prod.
struct Reduce {
  ReduceOp op = ReduceOp::sum;
  std::vector<int> axes;
  bool keep = true;  ///< a reduced axis stays with an extent of 1
  bool operator==(const Reduce&) const = default;
};

/// x → i64, place of the largest (or smallest) element along an axis; of equal ones the first, or the last.
struct ArgReduce {
  int axis = 0;
  bool smallest = false, keep = true, last = false;
  bool operator==(const ArgReduce&) const = default;
};

/// Along axes[i]: from starts[i] to before ends[i] in steps; negative ones count from the end, what lies outside is
/// moved to the edge (NumPy's rules). With `parts`, starts and ends count parts of one axis of e elements: as many, of
/// ⌈e/parts⌉ elements each but the last, which has what is left; a step above 1 is the length of a part.
struct Slice {
  std::vector<std::int64_t> starts, ends, steps;
  std::vector<int> axes;
  std::int64_t parts = 0;
  bool operator==(const Slice&) const = default;
};

/// x, indices (i32 or i64): the indexed slices along an axis; negative ones count from the end. An index outside is a
/// UserError of the run.
struct Gather {
  int axis = 0;
  bool operator==(const Gather&) const = default;
};

struct Tile {
  std::vector<std::int64_t> repeats;  ///< one an axis
  bool operator==(const Tile&) const = default;
};

/// x (N,C,H,W) → (N,C/block²,H·block,W·block), or the inverse. Channel order depth-column-row, or column-row-depth.
struct DepthToSpace {
  std::int64_t block = 2;
  bool column_row_depth = false;
  bool inverse = false;  ///< SpaceToDepth
  bool operator==(const DepthToSpace&) const = default;
};

/// x → x with the shape of the second input, of which no element is read.
struct ReshapeLike {
  bool operator==(const ReshapeLike&) const = default;
};

/// → i64, the extents [begin, end) of x as a vector.
struct ShapeOf {
  int begin = 0, end = 0;
  bool operator==(const ShapeOf&) const = default;
};

/// a (…,M,K), b (…,K,N) → (…,M,N); the other axes broadcast.
struct MatMul {
  bool operator==(const MatMul&) const = default;
};

/// Convolution, or its transpose, of volumes: x (N,C,D,H,W), w (K,C/groups,…) or (C,K/groups,…)[, bias (K)].
struct Conv3d {
  std::vector<std::int64_t> stride, dilation, before, after, output_pad;  ///< three each
  std::int64_t groups = 1;
  bool transposed = false;
  bool operator==(const Conv3d&) const = default;
};

/// Pooling over windows of x (N,C,…) with any number of other axes; see Pool2d. With `indices` the result is i64: where
/// in x (counted over all of it, row-major, or column-major within an image) the largest element of the window is.
struct PoolNd {
  bool average = false;
  std::vector<std::int64_t> kernel, stride, dilation, before, after;
  bool ceil_mode = false, count_pad = false;
  bool indices = false, column_major = false;
  bool operator==(const PoolNd&) const = default;
};

/// x[, like]: ONNX's Resize with all that operators::Resize lacks, for any number of axes; f32.
struct Resample {
  ResizeMode mode = ResizeMode::nearest;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  NearestRounding rounding = NearestRounding::round_prefer_floor;
  std::vector<double> scales;       ///< an axis each; 0: sizes say
  std::vector<std::int64_t> sizes;  ///< an axis each; 0: scales say, −1: that axis of `like`
  /// Sizes say how many elements there are and scales where they lie: the sizes are the scaled extents, rounded.
  bool rounded_sizes = false;
  std::vector<double> roi_begin, roi_end;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
  bool operator==(const Resample&) const = default;
};

}  // namespace operators

}  // namespace unisono
