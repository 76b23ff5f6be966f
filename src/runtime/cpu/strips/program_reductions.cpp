/// Reductions: within a row, and over rows by segments that are merged in order.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "coda/error.hpp"
#include "runtime/cpu/strips/program_builder.hpp"

namespace coda::cpu {

namespace {

RowResult row_result(Op op) {
  switch (op) {
    case Op::sum: return RowResult::sum;
    case Op::mean: return RowResult::mean;
    case Op::sum_squares: return RowResult::sum_squares;
    case Op::variance: return RowResult::variance;
    case Op::reduce_max: return RowResult::largest;
    case Op::reduce_min: return RowResult::smallest;
    default: throw InternalError(fmt::format("{} is no reduction", to_string(op)));
  }
}

double wrap32(double x, double y) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(x)) +
                                   static_cast<std::uint32_t>(static_cast<std::int64_t>(y)));
}
double wrapped_square(double x) {
  const auto b = static_cast<std::uint32_t>(static_cast<std::int32_t>(x));
  return static_cast<std::int32_t>(b * b);
}
double extreme(Collect c, double x, double y) {
  if (std::isnan(x)) return x;
  if (std::isnan(y)) return y;
  return c == Collect::largest ? std::max(x, y) : std::min(x, y);
}

// Statistics of a growing set of doubles
struct Statistic {
  Collect collect;
  bool integral;
  double count = 0, first = 0, second = 0;

  void add(double x) {
    switch (collect) {
      case Collect::sum: first = integral ? wrap32(first, x) : first + x; break;
      case Collect::sum_squares: first = integral ? wrap32(first, wrapped_square(x)) : first + x * x; break;
      case Collect::moments: merge(1, x, 0); return;
      case Collect::largest:
      case Collect::smallest: first = count == 0 ? x : extreme(collect, first, x); break;
    }
    count += 1;
  }

  // The statistics of n further elements (Chan, Golub, LeVeque 1983)
  void merge(double n, double their_first, double their_second) {
    if (n == 0) return;
    switch (collect) {
      case Collect::sum:
      case Collect::sum_squares: first = integral ? wrap32(first, their_first) : first + their_first; break;
      case Collect::moments: {
        const double total = count + n, delta = their_first - first;
        first += delta * (n / total);
        second += their_second + delta * delta * (count * (n / total));
        break;
      }
      case Collect::largest:
      case Collect::smallest: first = count == 0 ? their_first : extreme(collect, first, their_first); break;
    }
    count += n;
  }

  double result(Op op) const {
    if (op == Op::variance) return second / count;
    return op == Op::mean && collect == Collect::sum ? first / count : first;
  }
};

Collect collect_of(RowResult r) {
  switch (r) {
    case RowResult::sum:
    case RowResult::mean: return Collect::sum;
    case RowResult::sum_squares: return Collect::sum_squares;
    case RowResult::variance: return Collect::moments;
    case RowResult::largest: return Collect::largest;
    case RowResult::smallest: return Collect::smallest;
  }
  return Collect::sum;
}

}  // namespace

// Over columns alone: complete within the row
void ProgramBuilder::compute_row_reduction(ValueId v, const Register& out) {
  const Node& x = node(v);
  const Node& input = node(x.inputs[0]);
  const bool wide_in = is_wide(input.dtype);
  const Register in = shaped(x.inputs[0], out.per_row, p_.extents.cols, wide_in);
  const std::int64_t groups = x.attr.domain.groups, width = p_.extents.cols / groups;
  if (p_.extents.cols % groups != 0)
    throw UserError(fmt::format("{} with groups={}: {} columns do not divide into that many", to_string(x.op), groups,
                                p_.extents.cols));
  const RowResult kind = row_result(x.op);
  const auto reduce = unit_.reduce_rows[static_cast<int>(kind)];
  const bool integral = x.dtype == DType::i32;
  emit(out.per_row, [=, op = x.op, &p = p_](const Frame& f) {
    const std::int64_t rows = out.per_row ? f.rows : 1;
    std::byte* to = address(out, f, p);
    const std::byte* from = address(in, f, p);
    const auto set = [&](std::int64_t i, double y) {
      if (out.wide)
        reinterpret_cast<double*>(to)[i] = y;
      else
        reinterpret_cast<float*>(to)[i] = static_cast<float>(y);
    };
    if (!wide_in && !out.wide) {
      reduce({reinterpret_cast<const float*>(from), static_cast<std::size_t>(rows * groups),
              static_cast<std::size_t>(width), reinterpret_cast<float*>(to)});
    } else {
      for (std::int64_t r = 0; r < rows * groups; ++r) {
        Statistic s{collect_of(kind), integral};
        for (std::int64_t i = 0; i < width; ++i)
          s.add(wide_in ? reinterpret_cast<const double*>(from)[r * width + i]
                        : static_cast<double>(reinterpret_cast<const float*>(from)[r * width + i]));
        set(r, s.result(op));
      }
    }
    if (!out.scalar()) return;
    const double y = out.wide ? *reinterpret_cast<double*>(to) : static_cast<double>(*reinterpret_cast<float*>(to));
    for (std::size_t i = 1; i < scalar_lanes; ++i) set(static_cast<std::int64_t>(i), y);
  });
}

// Over rows: every block adds to the partial result of its segment
void ProgramBuilder::accumulate(ValueId v, RowReduction& r) {
  const Register in = shaped(node(v).inputs[0], true, r.input_width, r.wide_input);
  const auto collect = unit_.accumulate[static_cast<int>(r.collect)];
  const std::size_t offset = r.partial_offset, bytes = r.partial_bytes();
  const std::int64_t width = r.input_width;
  const Collect kind = r.collect;
  const bool wide = r.wide_input, integral = node(node(v).inputs[0]).dtype == DType::i32;
  emit(true, [=, &p = p_](const Frame& f) {
    std::byte* slot = f.partial + offset + static_cast<std::size_t>(f.segment) * bytes;
    if (!wide) {
      auto* first = reinterpret_cast<float*>(slot);
      if (f.row_in_segment == 0) std::fill_n(first, 2 * width, 0.0f);
      collect({.block = reinterpret_cast<const float*>(address(in, f, p)),
               .period = static_cast<std::size_t>(width),
               .repeats = static_cast<std::size_t>(f.rows),
               .lanes = static_cast<std::size_t>(width),
               .collected = static_cast<std::size_t>(f.row_in_segment),
               .first = first,
               .second = first + width});
      return;
    }
    auto* first = reinterpret_cast<double*>(slot);
    const auto* block = reinterpret_cast<const double*>(address(in, f, p));
    for (std::int64_t i = 0; i < width; ++i) {
      Statistic s{kind, integral, static_cast<double>(f.row_in_segment), f.row_in_segment ? first[i] : 0,
                  f.row_in_segment ? first[width + i] : 0};
      for (std::int64_t row = 0; row < f.rows; ++row) s.add(block[row * width + i]);
      first[i] = s.first;
      first[width + i] = s.second;
    }
  });
}

void merge_reduction(const Graph& graph, const Program& program, const RowReduction& r, const Tiling& tiling,
                     std::byte* partial, std::byte* reduced) {
  const Node& x = graph[r.value];
  const ReduceDomain& d = x.attr.domain;
  const std::int64_t images = d.per_image ? program.extents.images : 1;
  const std::int64_t segments = d.per_image ? tiling.segments_per_image() : tiling.segments();
  const std::int64_t run = r.width == 1 ? static_cast<std::int64_t>(scalar_lanes) : r.width;
  const std::int64_t columns = r.input_width / r.width;  // that one result merges
  for (std::int64_t image = 0; image < images; ++image) {
    for (std::int64_t j = 0; j < r.width; ++j) {
      Statistic s{r.collect, r.integral};
      for (std::int64_t i = 0; i < segments; ++i) {
        const std::int64_t segment = image * segments + i;
        const std::byte* slot = partial + r.partial_offset + static_cast<std::size_t>(segment) * r.partial_bytes();
        const auto rows = static_cast<double>(tiling.segment_rows(segment % tiling.segments_per_image()));
        for (std::int64_t c = j * columns; c < (j + 1) * columns; ++c) {
          if (r.wide_input)
            s.merge(rows, reinterpret_cast<const double*>(slot)[c],
                    reinterpret_cast<const double*>(slot)[r.input_width + c]);
          else
            s.merge(rows, static_cast<double>(reinterpret_cast<const float*>(slot)[c]),
                    static_cast<double>(reinterpret_cast<const float*>(slot)[r.input_width + c]));
        }
      }
      const double y = s.result(x.op);
      std::byte* to = reduced + r.result_offset;
      for (std::int64_t k = 0; k < (r.width == 1 ? run : 1); ++k) {
        const std::int64_t at = image * run + j + k;
        if (r.wide)
          reinterpret_cast<double*>(to)[at] = y;
        else
          reinterpret_cast<float*>(to)[at] = static_cast<float>(y);
      }
    }
  }
}

}  // namespace coda::cpu
