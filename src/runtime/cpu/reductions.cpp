#include "runtime/cpu/reductions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/cpu/registers.hpp"
#include "runtime/cpu/scratch.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

// Modulo 2^32, as two's complement
double wrapped(std::uint64_t x) {
  return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(x)));
}
std::uint64_t bits_of(double x) { return static_cast<std::uint64_t>(static_cast<std::int64_t>(x)); }
double sum_of(double x, double y, bool integer) { return integer ? wrapped(bits_of(x) + bits_of(y)) : x + y; }
double square_of(double x, bool integer) { return integer ? wrapped(bits_of(x) * bits_of(x)) : x * x; }

double larger(double x, double y) { return x > y || std::isnan(x) ? x : y; }
double smaller(double x, double y) { return x < y || std::isnan(x) ? x : y; }

// (mean, Σ(x - mean)²) of two sets (Chan, Golub and LeVeque 1983)
Partial merged_moments(Partial x, double x_count, Partial y, double y_count) {
  if (x_count == 0) return y;
  if (y_count == 0) return x;
  const double count = x_count + y_count, delta = y.first - x.first;
  return {x.first + delta * (y_count / count), x.second + y.second + delta * delta * (x_count * y_count / count)};
}

Partial merged(const Accumulation& a, Partial x, double x_count, Partial y, double y_count) {
  if (x_count == 0) return y;
  if (y_count == 0) return x;
  switch (a.collect) {
    case Collect::moments: return merged_moments(x, x_count, y, y_count);
    case Collect::largest: return {larger(x.first, y.first), 0};
    case Collect::smallest: return {smaller(x.first, y.first), 0};
    default: return {sum_of(x.first, y.first, a.integer), 0};
  }
}

// Rows whose lanes make whole vectors
std::int64_t period_rows(const Accumulation& a, std::int64_t block_rows) {
  const std::int64_t rows = a.wide ? 1 : 16 / std::gcd<std::int64_t>(16, a.cols);
  return block_rows % rows == 0 ? rows : a.cols >= 16 ? 1 : block_rows;
}

}  // namespace

std::size_t SegmentAccumulator::bytes(const Accumulation& a, std::int64_t block_rows) {
  return 2 * array_bytes({period_rows(a, block_rows), a.cols}, a.wide);
}

SegmentAccumulator::SegmentAccumulator(const Accumulation& a, std::int64_t block_rows, std::byte* memory)
    : a_(&a), period_rows_(period_rows(a, block_rows)) {
  std::byte* second = memory + bytes(a, block_rows) / 2;
  first_ = reinterpret_cast<float*>(memory);
  second_ = reinterpret_cast<float*>(second);
  wide_first_ = reinterpret_cast<double*>(memory);
  wide_second_ = reinterpret_cast<double*>(second);
}

void SegmentAccumulator::add(const VectorUnit& unit, const void* lanes, std::int64_t rows) {
  if (a_->wide) return add_wide(static_cast<const double*>(lanes), rows);
  if (tail_lanes_ != 0) throw InternalError("a segment went on after a block that was not full");
  const auto run = unit.accumulate[static_cast<int>(a_->collect)];
  const std::int64_t repeats = rows / period_rows_, tail_rows = rows % period_rows_;
  AccumulateArgs args;
  args.block = static_cast<const float*>(lanes);
  args.period = static_cast<std::size_t>(period_rows_ * a_->cols);
  args.repeats = static_cast<std::size_t>(repeats);
  args.lanes = args.period;
  args.collected = static_cast<std::size_t>(collected_);
  args.first = first_;
  args.second = second_;
  if (repeats > 0) run(args);
  collected_ += repeats;
  if (tail_rows == 0) return;
  tail_lanes_ = tail_rows * a_->cols;
  args.block += repeats * period_rows_ * a_->cols;
  args.repeats = 1;
  args.lanes = static_cast<std::size_t>(tail_lanes_);
  args.collected = static_cast<std::size_t>(collected_);
  run(args);
}

void SegmentAccumulator::add_wide(const double* lanes, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r, ++collected_) {
    for (std::int64_t c = 0; c < a_->cols; ++c) {
      const double x = *lanes++;
      const Partial fresh{a_->collect == Collect::sum_squares ? square_of(x, a_->integer) : x, 0};
      const Partial all = merged(*a_, {wide_first_[c], wide_second_[c]}, static_cast<double>(collected_), fresh, 1);
      wide_first_[c] = all.first;
      wide_second_[c] = all.second;
    }
  }
}

void SegmentAccumulator::finish(Partial* results) const {
  const std::int64_t cols = a_->cols, width = cols / a_->results, lanes = period_rows_ * cols;
  for (std::int64_t g = 0; g < a_->results; ++g) {
    Partial all;
    double count = 0;
    for (std::int64_t lane = g * width; lane < lanes; lane += cols) {  // rows of the period
      for (std::int64_t c = lane; c < lane + width; ++c) {
        const auto elements = static_cast<double>(collected_ + (c < tail_lanes_ ? 1 : 0));
        const Partial one = a_->wide ? Partial{wide_first_[c], wide_second_[c]}
                                     : Partial{static_cast<double>(first_[c]), static_cast<double>(second_[c])};
        all = merged(*a_, all, count, one, elements);
        count += elements;
      }
    }
    results[g] = all;
  }
}

namespace {

double final_value(Op op, Partial p, double count) {
  switch (op) {
    case Op::mean: return p.first;                             // the moments' mean; sums are divided by the caller
    case Op::variance: return p.second / count + 0 * p.first;  // NaN where the mean is: a lone NaN has no deviation
    default: return p.first;
  }
}

void write_slot(const UniformSlot& slot, std::byte* uniform, std::int64_t at, double x) {
  std::byte* base = uniform + slot.offset;
  const std::int64_t copies = slot.shape.scalar() ? static_cast<std::int64_t>(scalar_lanes) : 1;
  for (std::int64_t i = at; i < at + copies; ++i) {
    if (slot.wide)
      reinterpret_cast<double*>(base)[i] = x;
    else
      reinterpret_cast<float*>(base)[i] = static_cast<float>(x);
  }
}

}  // namespace

void merge_segments(const Accumulation& a, const Plan& plan, const Tiling& tiling, const Partial* partials,
                    std::byte* uniform) {
  const std::int64_t images = tiling.extents().images, each = tiling.segments_per_image();
  const std::int64_t outer = a.domain.per_image ? images : 1, inner = a.domain.per_image ? 1 : images;
  const std::int64_t width = a.cols / a.results;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t g = 0; g < a.results; ++g) {
      Partial all;
      double count = 0;
      for (std::int64_t s = 0; s < inner * each; ++s) {
        const auto elements = static_cast<double>(tiling.segment_rows(s % each) * width);
        all = merged(a, all, count, partials[(o * each + s) * a.results + g], elements);
        count += elements;
      }
      for (const Accumulation::Result& r : a.outputs) {
        double x = final_value(r.op, all, count);
        if (r.op == Op::mean && a.collect == Collect::sum) x = all.first / count;
        if (r.slot >= 0) write_slot(plan.slots[static_cast<std::size_t>(r.slot)], uniform, o * a.results + g, x);
      }
    }
  }
}

namespace {

// Σ x, Σ x², mean, variance, largest or smallest of a run, each element standing for `weight` equal ones
double reduced(Op op, bool integer, const double* x, std::int64_t count, std::int64_t stride, double weight) {
  double sum = 0, squares = 0, best = x[0];
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = x[i * stride];
    sum = sum_of(sum, v, integer);
    squares = sum_of(squares, square_of(v, integer), integer);
    best = op == Op::reduce_max ? larger(best, v) : smaller(best, v);
  }
  const auto weighted = [&](double s) {
    return integer ? wrapped(bits_of(s) * static_cast<std::uint64_t>(weight)) : s * weight;
  };
  const double mean = sum / static_cast<double>(count);
  switch (op) {
    case Op::sum: return weighted(sum);
    case Op::sum_squares: return weighted(squares);
    case Op::mean: return mean;
    case Op::reduce_max:
    case Op::reduce_min: return best;
    default: break;
  }
  double deviations = 0;  // variance
  for (std::int64_t i = 0; i < count; ++i) deviations += (x[i * stride] - mean) * (x[i * stride] - mean);
  return deviations / static_cast<double>(count);
}

Op op_of(RowResult r) {
  switch (r) {
    case RowResult::sum: return Op::sum;
    case RowResult::mean: return Op::mean;
    case RowResult::sum_squares: return Op::sum_squares;
    case RowResult::variance: return Op::variance;
    case RowResult::largest: return Op::reduce_max;
    case RowResult::smallest: return Op::reduce_min;
  }
  return Op::sum;
}

}  // namespace

void reduce_uniform(const Node& node, const Extents& e, const double* source, const LaneShape& shape, double* result,
                    const LaneShape& result_shape) {
  const ReduceDomain& d = node.attr.domain;
  const bool integer = node.dtype == DType::i32;
  const std::int64_t groups = d.cols ? d.groups : shape.cols, width = shape.cols / groups;
  const bool over_images = d.rows && !d.per_image && shape.rows > 1;
  double weight = 1;  // rows of the space that a row of the source stands for
  if (d.rows) weight = static_cast<double>(d.per_image || over_images ? e.rows_per_image() : e.rows());
  const std::int64_t run = over_images ? shape.rows * width : width;
  std::vector<double> column(static_cast<std::size_t>(run));
  for (std::int64_t r = 0; r < result_shape.rows; ++r) {
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t i = 0; i < run; ++i) {
        const std::int64_t row = over_images ? i / width : shape.rows == 1 ? 0 : r;
        column[static_cast<std::size_t>(i)] = source[row * shape.cols + g * width + i % width];
      }
      result[r * result_shape.cols + g] = reduced(node.op, integer, column.data(), run, 1, weight);
    }
  }
  if (result_shape.scalar()) std::fill_n(result, scalar_lanes, result[0]);
}

void reduce_rows_wide(RowResult kind, bool integer, const double* source, std::int64_t rows, std::int64_t width,
                      double* result) {
  for (std::int64_t r = 0; r < rows; ++r) result[r] = reduced(op_of(kind), integer, source + r * width, width, 1, 1);
}

void integer_lanes(Op op, const double* const source[3], const std::ptrdiff_t step[3], std::int64_t lanes,
                   double* result) {
  for (std::int64_t i = 0; i < lanes; ++i) {
    const auto at = [&](int k) { return source[k][i * step[k]]; };
    const auto bits = [&](int k) { return bits_of(at(k)); };
    result[i] = [&]() -> double {
      switch (op) {
#define CPU_I32(...) return __VA_ARGS__;
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    __VA_ARGS__ break;                 \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
      }
      throw InternalError("the CPU has no i32 form of " + std::string(to_string(op)));
    }();
  }
}

}  // namespace unisono::cpu
