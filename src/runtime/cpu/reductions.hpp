#pragma once
/// Reductions: partial results of segments, their merging in a fixed order, and reductions of uniform values.

#include <cstddef>
#include <vector>

#include "runtime/cpu/program.hpp"
#include "runtime/cpu/tiling.hpp"

namespace unisono::cpu {

/// What a segment of rows contributes to one column of a result: (sum or extreme, -) or (mean, Σ(x - mean)²).
struct Partial {
  double first = 0, second = 0;
};

/// Collects the blocks of one segment for one accumulation. Memory: bytes() of it.
class SegmentAccumulator {
 public:
  SegmentAccumulator(const Accumulation& a, std::int64_t block_rows, std::byte* memory);

  static std::size_t bytes(const Accumulation& a, std::int64_t block_rows);

  void start() { collected_ = tail_lanes_ = 0; }
  /// `lanes` holds (rows, cols) floats, or doubles if the accumulation is wide.
  void add(const VectorUnit& unit, const void* lanes, std::int64_t rows);
  /// Merges the lanes of the period to the columns of the result.
  void finish(Partial* results) const;

 private:
  void add_wide(const double* lanes, std::int64_t rows);

  const Accumulation* a_;
  std::int64_t period_rows_;     // rows whose lanes are collected side by side
  std::int64_t collected_ = 0;   // elements in each lane
  std::int64_t tail_lanes_ = 0;  // lanes that hold one element more
  float *first_ = nullptr, *second_ = nullptr;
  double *wide_first_ = nullptr, *wide_second_ = nullptr;
};

/// Merges the partial results of all segments, [segment][result column], and writes the uniform values that they are
/// for.
void merge_segments(const Accumulation& a, const Plan& plan, const Tiling& tiling, const Partial* partials,
                    std::byte* uniform);

/// A reduction of a uniform value: `source` has `shape`, with all columns if the domain has columns.
void reduce_uniform(const Node& node, const Extents& e, const double* source, const LaneShape& shape, double* result,
                    const LaneShape& result_shape);

/// Generic forms on double lanes, for values of f64 and i32.
void reduce_rows_wide(RowResult kind, bool integer, const double* source, std::int64_t rows, std::int64_t width,
                      double* result);
void integer_lanes(Op op, const double* const source[3], const std::ptrdiff_t step[3], std::int64_t lanes,
                   double* result);

}  // namespace unisono::cpu
