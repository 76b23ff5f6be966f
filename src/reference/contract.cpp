/// Contractions in float64. Every contraction is brought to one form: an output row is a sum over *taps*, each a run of
/// input channels times a matrix (channels, output columns). A GEMM has one tap, a convolution one for each filter
/// position that falls inside the image.

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <system_error>
#include <thread>

#include "reference/reference.hpp"
#include "reference/strided.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

namespace {

struct Tap {
  const double* x;  // (channels)
  const double* w;  // (channels, columns), rows `out.cols` apart
};

// The two operands in float64. x: (images, H, W, C). w: (taps, C/groups, K), or one (k, n) matrix a batch for a GEMM.
struct Float64Contraction {
  std::vector<double> x, w;
  Extents out;
  std::int64_t groups = 1;
  std::int64_t channels = 0;  // in one group
  std::int64_t most_taps = 1;
  double operand_error = 0;  // relative error of a product by the rounding of tf32 operands
  bool integers = false;     // all elements of x and w are integers
  std::function<void(std::int64_t row, std::vector<Tap>& taps)> taps_of_row;
};

// A tf32 operand is rounded to tf32 on its way in. Hardware may truncate instead: one ulp, 2^-10, at most.
double round_tf32(std::vector<double>& x, DType t) {
  if (t != DType::tf32) return 0;
  double error = 0;
  for (double& v : x) {
    const double r = support::round_to(v, DType::tf32);
    if (r != v && !std::isnan(v)) error = 0x1p-10;
    v = r;
  }
  return error;
}

bool all_integers(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(),
                     [](double v) { return std::abs(v) <= 0x1p24 && static_cast<double>(static_cast<int>(v)) == v; });
}

void prepare(Float64Contraction& p, DType dtype_x, DType dtype_w) {
  p.operand_error = round_tf32(p.x, dtype_x) + round_tf32(p.w, dtype_w);
  p.integers = all_integers(p.x) && all_integers(p.w);
}

// Rows of each group by its own matrix
Float64Contraction grouped(Float64Contraction p, const Gemm& g) {
  std::vector<std::int64_t> ends;
  for (const std::int64_t rows : g.group_rows) ends.push_back((ends.empty() ? 0 : ends.back()) + rows);
  p.taps_of_row = [g, ends, x = p.x.data(), w = p.w.data()](std::int64_t row, std::vector<Tap>& taps) {
    const std::int64_t group = std::upper_bound(ends.begin(), ends.end(), row) - ends.begin();
    taps.push_back({x + row * g.k, w + group * g.k * g.n});
  };
  return p;
}

Float64Contraction problem_of(const Gemm& g, const Strided& a, const Strided& b) {
  Float64Contraction p;
  p.x = gather(g.transpose_a ? a.permuted({0, 2, 1}) : a);
  p.w = gather(g.transpose_b ? b.permuted({0, 2, 1}) : b);
  prepare(p, a.dtype, b.dtype);
  p.channels = g.k;
  if (!g.group_rows.empty()) return grouped(std::move(p), g);
  p.taps_of_row = [g, x = p.x.data(), w = p.w.data()](std::int64_t row, std::vector<Tap>& taps) {
    taps.push_back({x + row * g.k, w + row / g.m * g.k * g.n});
  };
  return p;
}

// (N,H,W,C) of an image in either layout
std::vector<double> gather_image(const Strided& x, Layout layout) {
  return gather(layout == Layout::nhwc ? x : x.permuted({0, 2, 3, 1}));
}

// Where output position p meets filter position r, or -1: for a convolution and for its transpose
std::int64_t input_position(const Conv2d& c, int d, std::int64_t p, std::int64_t r) {
  const std::int64_t i = p * c.stride[d] - c.pad[d] + r * c.dilation[d];
  return i < (d == 0 ? c.h : c.w) ? i : -1;
}
std::int64_t input_position(const ConvTranspose2d& c, int d, std::int64_t p, std::int64_t r) {
  const std::int64_t i = p + c.pad[d] - r * c.dilation[d];
  if (i < 0 || i % c.stride[d] != 0) return -1;
  return i / c.stride[d] < (d == 0 ? c.h : c.w) ? i / c.stride[d] : -1;
}

template <class C>
void set_taps(Float64Contraction& problem, const C& c) {
  const Extents e = extents(c);
  problem.groups = c.groups;
  problem.channels = c.c / c.groups;
  problem.most_taps = c.r * c.s;
  const std::int64_t matrix = problem.channels * c.k;
  problem.taps_of_row = [c, e, matrix, x = problem.x.data(), w = problem.w.data()](std::int64_t row,
                                                                                   std::vector<Tap>& taps) {
    const std::int64_t b = row / e.rows_per_image(), p = row % e.rows_per_image() / e.width, q = row % e.width;
    for (std::int64_t r = 0; r < c.r; ++r) {
      const std::int64_t h = input_position(c, 0, p, r);
      for (std::int64_t s = 0; h >= 0 && s < c.s; ++s) {
        const std::int64_t v = input_position(c, 1, q, s);
        if (v >= 0) taps.push_back({x + ((b * c.h + h) * c.w + v) * c.c, w + (r * c.s + s) * matrix});
      }
    }
  };
}

Float64Contraction problem_of(const Conv2d& c, const Strided& a, const Strided& b) {
  Float64Contraction p;
  p.x = gather_image(a, c.layout);
  p.w = gather(c.layout == Layout::nhwc ? b.permuted({1, 2, 3, 0}) : b.permuted({2, 3, 1, 0}));  // (R,S,C/groups,K)
  prepare(p, a.dtype, b.dtype);
  set_taps(p, c);
  return p;
}

Float64Contraction problem_of(const ConvTranspose2d& c, const Strided& a, const Strided& b) {
  Float64Contraction p;
  p.x = gather_image(a, c.layout);
  const Strided w = b.split(0, c.groups);  // (g, C/g, R, S, K/g) or (g, C/g, K/g, R, S)
  p.w = gather(c.layout == Layout::nhwc ? w.permuted({2, 3, 1, 0, 4}) : w.permuted({3, 4, 1, 0, 2}));
  prepare(p, a.dtype, b.dtype);
  set_taps(p, c);
  return p;
}

// Where output place p of an axis of a volume (0: planes) meets filter place t, or -1
std::int64_t input_place(const Conv3d& c, std::size_t axis, std::int64_t p, std::int64_t t) {
  const std::int64_t i = p * c.stride[axis] - c.before[axis] + t * c.dilation[axis];
  return i >= 0 && i < (axis == 0 ? c.d : axis == 1 ? c.h : c.w) ? i : -1;
}

Float64Contraction problem_of(const Conv3d& c, const Strided& a, const Strided& b) {
  Float64Contraction p;
  p.x = gather(a);
  p.w = gather(b.permuted({1, 2, 3, 4, 0}));  // (T,R,S,C/groups,K)
  prepare(p, a.dtype, b.dtype);
  const Extents e = extents(c);
  p.groups = c.groups, p.channels = c.c / c.groups, p.most_taps = c.t * c.r * c.s;
  const std::int64_t matrix = p.channels * c.k, height = e.height / output_planes(c);
  p.taps_of_row = [c, e, matrix, height, x = p.x.data(), w = p.w.data()](std::int64_t row, std::vector<Tap>& taps) {
    const std::int64_t image = row / e.rows_per_image(), line = row % e.rows_per_image() / e.width;
    for (std::int64_t t = 0; t < c.t; ++t)
      for (std::int64_t r = 0; r < c.r; ++r)
        for (std::int64_t s = 0; s < c.s; ++s) {
          const std::int64_t d = input_place(c, 0, line / height, t), h = input_place(c, 1, line % height, r),
                             v = input_place(c, 2, row % e.width, s);
          if (d < 0 || h < 0 || v < 0) continue;
          taps.push_back({x + (((image * c.d + d) * c.h + h) * c.w + v) * c.c, w + ((t * c.r + r) * c.s + s) * matrix});
        }
  };
  return p;
}

// (K, N·P·Q) times (N·P·Q, R·S·C): X as the windows that each tap reads, zero outside the image
Float64Contraction problem_of(const FilterGradient2d& g, const Strided& a, const Strided& b) {
  Float64Contraction p;
  const Conv2d c = g.convolution();
  const Extents e = extents(c);
  p.x = gather(a.permuted({3, 0, 1, 2}));
  const std::vector<double> image = gather(b);
  p.w.resize(static_cast<std::size_t>(e.rows() * g.r * g.s * g.c));
  auto to = p.w.begin();
  for (std::int64_t row = 0; row < e.rows(); ++row)
    for (std::int64_t tap = 0; tap < g.r * g.s; ++tap, to += g.c) {
      const std::int64_t h = input_position(c, 0, row % e.rows_per_image() / e.width, tap / g.s);
      const std::int64_t w = input_position(c, 1, row % e.width, tap % g.s);
      if (h < 0 || w < 0) continue;
      std::copy_n(image.begin() + ((row / e.rows_per_image() * g.h + h) * g.w + w) * g.c, g.c, to);
    }
  prepare(p, a.dtype, b.dtype);
  p.channels = e.rows();
  p.taps_of_row = [depth = e.rows(), x = p.x.data(), w = p.w.data()](std::int64_t row, std::vector<Tap>& taps) {
    taps.push_back({x + row * depth, w});
  };
  return p;
}

// value[j] = Σ x·w[., j] and magnitude[j] = Σ |x·w[., j]| for `cols` columns, in the order of taps and channels
template <int Width>
void sum_columns(const std::vector<Tap>& taps, std::int64_t x_offset, std::int64_t w_offset, std::int64_t channels,
                 std::int64_t w_stride, double* value, double* magnitude) {
  double sum[Width] = {}, absolute[Width] = {};
  for (const Tap& tap : taps) {
    const double* x = tap.x + x_offset;
    const double* w = tap.w + w_offset;
    for (std::int64_t c = 0; c < channels; ++c, w += w_stride) {
      for (int j = 0; j < Width; ++j) {
        const double product = x[c] * w[j];
        sum[j] += product;
        absolute[j] += std::abs(product);
      }
    }
  }
  std::copy_n(sum, Width, value);
  std::copy_n(absolute, Width, magnitude);
}

void contract_row(const Float64Contraction& p, std::int64_t row, std::vector<Tap>& taps, double* value,
                  double* magnitude) {
  taps.clear();
  p.taps_of_row(row, taps);
  const std::int64_t cols = p.out.cols, per_group = cols / p.groups;
  for (std::int64_t g = 0; g < p.groups; ++g) {
    std::int64_t j = g * per_group;
    const std::int64_t end = j + per_group;
    for (; j + 8 <= end; j += 8) sum_columns<8>(taps, g * p.channels, j, p.channels, cols, value + j, magnitude + j);
    for (; j < end; ++j) sum_columns<1>(taps, g * p.channels, j, p.channels, cols, value + j, magnitude + j);
  }
}

// Error bound of one accumulator of `depth` terms
double bound_of(const Float64Contraction& p, double depth, double value, double magnitude, const ErrorModel& model) {
  if (!std::isfinite(value)) return 0;                            // an infinity or NaN among the operands: certain
  if (p.integers && magnitude <= 1 / model.accumulate) return 0;  // every partial sum is exact
  const double largest =
      model.accumulate > 0x1p-50 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  const double ku = depth * (model.accumulate + 0x1p-53);  // 2^-53: the sum here
  const double relative = ku / (1 - ku) + p.operand_error * (1 + p.operand_error);
  const double bound = relative * magnitude + depth * 0x1p-126;  // products may underflow
  return ku < 1 && magnitude + bound <= largest ? bound : std::numeric_limits<double>::infinity();
}

// Runs body(first, last) over [0, count) on the machine's threads. Each row is computed by one thread in a fixed order,
// so the result does not depend on their number.
void over_rows(std::int64_t count, double work, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const double most = std::min<double>(std::max(1u, std::thread::hardware_concurrency()), work / 1e6);
  const auto threads = std::clamp<std::int64_t>(static_cast<std::int64_t>(most), 1, count);
  if (threads == 1) return body(0, count);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  {
    const auto part = [&](std::int64_t t) {
      try {
        body(count * t / threads, count * (t + 1) / threads);
      } catch (...) {
        errors[static_cast<std::size_t>(t)] = std::current_exception();
      }
    };
    std::vector<std::jthread> pool;
    for (std::int64_t t = 0; t < threads; ++t) try {
        pool.emplace_back(part, t);
      } catch (const std::system_error&) {  // no thread to be had
        part(t);
      }
  }
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

}  // namespace

Values contract(const Contraction& contraction, const ConstTensorView& a, const ConstTensorView& b,
                const ErrorModel& model) {
  const Extents out = extents(contraction);
  const Strided xa = checked(a, shape_a(contraction), "the left operand of " + to_string(contraction));
  const Strided xb = checked(b, shape_b(contraction), "the right operand of " + to_string(contraction));
  Float64Contraction p = std::visit([&](const auto& c) { return problem_of(c, xa, xb); }, contraction);
  p.out = out;
  Values r{axes::mn, {}, {}};
  r.value.resize(static_cast<std::size_t>(out.rows() * out.cols));
  r.bound.resize(r.value.size());
  const auto terms = static_cast<double>(p.most_taps * p.channels);
  over_rows(out.rows(), flop(contraction), [&](std::int64_t first, std::int64_t last) {
    std::vector<Tap> taps;
    taps.reserve(static_cast<std::size_t>(p.most_taps));
    for (std::int64_t row = first; row < last; ++row) {
      double* value = r.value.data() + row * out.cols;
      double* bound = r.bound.data() + row * out.cols;
      contract_row(p, row, taps, value, bound);
      for (std::int64_t j = 0; j < out.cols; ++j) bound[j] = bound_of(p, terms, value[j], bound[j], model);
    }
  });
  return r;
}

}  // namespace unisono::reference
