#pragma once
/// Operators that gather, scatter, count and sort elements. Like all operators on tensors of any type they are part of
/// no region. Indices are i32 or i64; negative ones count from the end. An index outside its axis is a UserError of the
/// run.

#include <cstdint>

namespace unisono {

/// How a scatter combines an element with an update.
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

/// x, indices (batch…,…,D) → (batch…,…,slice…): the innermost axis of the indices is a tuple of indices along the D
/// axes of x after the first `batch` ones, which both have in common.
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

/// x, indices (…,D), updates (…,slice…) → x with the slices at the tuples replaced by, or reduced with, the updates, in
/// row-major order of the tuples.
struct ScatterND {
  ScatterReduction reduction = ScatterReduction::none;
  bool operator==(const ScatterND&) const = default;
};

/// x → i64 (extent of x along the axis): 0, 1, 2, … The elements of x are not read.
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

/// Running sums along an axis. Floats are summed in float64 and rounded once; integers wrap.
struct CumulativeSum {
  int axis = 0;
  bool exclusive = false;  ///< without the element itself
  bool reverse = false;    ///< from the end
  bool operator==(const CumulativeSum&) const = default;
};

/// x → i64: the indices of the `count` largest (or smallest) elements along an axis, the most extreme first. Ties keep
/// their order. NaN is larger than every number.
struct TopK {
  int axis = 0;
  std::int64_t count = 1;
  bool smallest = false;
  bool operator==(const TopK&) const = default;
};

/// x (N,C,H,W), grid (N,P,Q,2) → (N,C,P,Q): samples x at the positions (column, row) of the grid, from −1 to 1 across
/// the image: with align_corners between the centres of the outermost pixels, else between their outer edges. Volumes:
/// x (N,C,D,H,W), grid (N,O,P,Q,3), linear and nearest. Borders are those of PyTorch's grid_sample; a NaN position is
/// outside (zeros) or at the last pixel. x and the grid are f32 or f64, independently; the result has x's type.
struct GridSample {
  GridMode mode = GridMode::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
  bool operator==(const GridSample&) const = default;
};

}  // namespace operators

}  // namespace unisono
