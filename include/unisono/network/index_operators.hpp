#pragma once
/// Operators that pick, place, count and order elements. Like all operators on tensors of any type they run by
/// themselves. Indices are i32 or i64 tensors; negative ones count from the end. An index outside its axis is a
/// UserError of the run.

#include <cstdint>

namespace unisono {

/// What a scatter makes of an element and an update for it.
enum class ScatterReduction : std::uint8_t { none, add, mul, min, max };

enum class GridPadding : std::uint8_t { zeros, border, reflection };
enum class GridMode : std::uint8_t { linear, nearest, cubic };

namespace operators {

/// x, indices of the same rank → the shape of the indices: element (i,j,k) is x(i,indices(i,j,k),k) for axis 1. Other
/// axes of the indices are at most as long as those of x.
struct GatherElements {
  int axis = 0;
  bool operator==(const GatherElements&) const = default;
};

/// x, indices (batch…,…,D) → (batch…,…,slice…): the innermost axis of the indices is a tuple that names the first D
/// axes of x behind the first `batch` ones, which both have in common.
struct GatherND {
  int batch = 0;
  bool operator==(const GatherND&) const = default;
};

/// x, indices, updates → x with element (i,indices(i,j,k),k) replaced by updates(i,j,k), or reduced with it, for
/// axis 1. Updates of one element are taken in row-major order of the indices.
struct ScatterElements {
  int axis = 0;
  ScatterReduction reduction = ScatterReduction::none;
  bool operator==(const ScatterElements&) const = default;
};

/// x, indices (…,D), updates (…,slice…) → x with the slices that the tuples name replaced, or reduced, in the row-major
/// order of the tuples.
struct ScatterND {
  ScatterReduction reduction = ScatterReduction::none;
  bool operator==(const ScatterND&) const = default;
};

/// x → i64 (extent of x along the axis): 0, 1, 2, … No element of x is read.
struct Range {
  int axis = 0;
  bool operator==(const Range&) const = default;
};

/// The upper (column − row >= diagonal) or lower (column − row <= diagonal) part of the matrices of the last two axes,
/// 0 elsewhere.
struct Triangle {
  bool upper = true;
  std::int64_t diagonal = 0;
  bool operator==(const Triangle&) const = default;
};

/// Running sums along an axis. Floats are summed in float64, each sum is rounded once; integers wrap.
struct CumulativeSum {
  int axis = 0;
  bool exclusive = false;  ///< without the element itself
  bool reverse = false;    ///< from the end
  bool operator==(const CumulativeSum&) const = default;
};

/// x → i64: places of the `count` largest (or smallest) elements along an axis, the most extreme first, of equal ones
/// the first first. A NaN is larger than every number.
struct TopK {
  int axis = 0;
  std::int64_t count = 1;
  bool smallest = false;
  bool operator==(const TopK&) const = default;
};

/// x (N,C,H,W), grid (N,P,Q,2) → (N,C,P,Q): x at the places (column, row) that the grid names, from −1 to 1 across the
/// image; the centres of the outermost pixels lie there with align_corners, else their outer edges. Of volumes
/// x (N,C,D,H,W), grid (N,O,P,Q,3), linear and nearest. Borders as PyTorch's grid_sample; a place that is NaN is
/// outside (zeros) or at the last pixel. x and the grid are f32 or f64, each by itself; the result is of x's type.
struct GridSample {
  GridMode mode = GridMode::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
  bool operator==(const GridSample&) const = default;
};

}  // namespace operators

}  // namespace unisono
