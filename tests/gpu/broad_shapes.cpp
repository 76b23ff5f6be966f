// Contractions of every kind, small enough that float64 checks each element soon.

#include <algorithm>
#include <cmath>

#include "gpu/broad.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr std::int64_t few_elements = 40'000, many_elements = 1'000'000;
constexpr double little_work = 1.2e7, much_work = 6e8;  // products to add up

std::int64_t multiple_of_8(Random& r, int most) { return 8 * r.between(1, most); }

// Mostly what TMA loads, a third odd, small ones more often
std::int64_t draw_channels(Random& r, int most_eights) {
  if (r.chance(0.65)) return multiple_of_8(r, r.chance(0.4) ? most_eights : std::max(1, most_eights / 3));
  return r.chance(0.4) ? r.one_of({1, 2, 3, 4, 10, 33, 127}) : r.between(1, 6 * most_eights);
}

DType draw_dtype(Random& r) { return r.chance(0.55) ? DType::bf16 : r.chance(0.7) ? DType::f16 : DType::f32; }

void draw_taps(Random& r, std::int64_t& taps_h, std::int64_t& taps_w) {
  taps_h = r.one_of({1, 1, 3, 3, 3, 5, 7});
  taps_w = r.chance(0.75) ? taps_h : r.between(1, 7);
}

// Output extents whose elements and products stay within bounds
struct Budget {
  std::int64_t elements;
  double work;
  explicit Budget(bool large) : elements(large ? many_elements : few_elements), work(large ? much_work : little_work) {}
  std::int64_t rows(std::int64_t columns, double depth) const {
    const double most = std::min(static_cast<double>(elements), work / depth) / static_cast<double>(columns);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(most));
  }
};

// How many of `most` rows: few now and then, so that tiles are not full
std::int64_t part_of(Random& r, std::int64_t most) {
  const double share = r.chance(0.3) ? r.uniform(0.02, 0.3) : r.uniform(0.3, 1);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(most) * share));
}

struct Pixels {
  std::int64_t images, height, width;
};
Pixels draw_pixels(Random& r, std::int64_t most_rows) {
  const std::int64_t rows = part_of(r, most_rows);
  Pixels p{.images = r.chance(0.4) ? 1 : r.between(2, 5), .height = 1, .width = 1};
  p.images = std::min(p.images, rows);
  const auto each = static_cast<double>(rows / p.images);
  const double ratio = std::exp(r.uniform(-1, 1));
  p.height = std::clamp<std::int64_t>(std::llround(std::sqrt(each * ratio)), 1, 400);
  p.width = std::clamp<std::int64_t>(static_cast<std::int64_t>(each / static_cast<double>(p.height)), 1, 400);
  return p;
}

void extents_of(Random& r, Gemm& g, const Budget& budget) {
  const std::int64_t rows = part_of(r, budget.rows(g.n, static_cast<double>(g.k)));
  if (g.batch > 1) g.batch = std::min<std::int64_t>(r.between(2, 6), rows + 1);
  g.m = std::clamp<std::int64_t>(rows / g.batch, 1, 4000);
  if (g.transpose_a && r.chance(0.7)) g.m = (g.m + 7) / 8 * 8;
}

// The input that gives so many pixels; padding may be more than the input
void extents_of(Random& r, Conv2d& c, const Budget& budget) {
  const Pixels p = draw_pixels(r, budget.rows(c.k, static_cast<double>(c.r * c.s * c.c / c.groups)));
  c.n = p.images;
  const bool same = r.chance(0.5);
  const std::int64_t spans[2] = {(c.r - 1) * c.dilation[0], (c.s - 1) * c.dilation[1]}, out[2] = {p.height, p.width};
  for (std::size_t i = 0; i < 2; ++i) {
    c.pad[i] = same ? spans[i] / 2 : r.between(0, 3);
    c.pad[i + 2] = same ? spans[i] / 2 : r.between(0, 3);
    const std::int64_t in = (out[i] - 1) * c.stride[i] + spans[i] + 1 - c.pad[i] - c.pad[i + 2];
    (i == 0 ? c.h : c.w) =
        std::max<std::int64_t>(in, std::max<std::int64_t>(1, spans[i] + 1 - c.pad[i] - c.pad[i + 2]));
  }
}

void extents_of(Random& r, ConvTranspose2d& t, const Budget& budget) {
  const auto strides = static_cast<double>(t.stride[0] * t.stride[1]);
  const std::int64_t rows = budget.rows(t.k, static_cast<double>(t.r * t.s * t.c / t.groups));
  const Pixels p =
      draw_pixels(r, std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(rows) / strides)));
  t.n = p.images, t.h = p.height, t.w = p.width;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t taps = i % 2 == 0 ? t.r : t.s;
    t.pad[i] = std::min<std::int64_t>(r.between(0, 2), (taps - 1) / 2);
  }
  t.output_pad = {r.below(static_cast<int>(t.stride[0])), r.below(static_cast<int>(t.stride[1]))};
}

// Groups: none, some, or one a channel
template <class Convolution>
void draw_groups(Random& r, Convolution& c) {
  const double kind = r.uniform(0, 1);
  if (kind < 0.75) {
    c.c = draw_channels(r, 24), c.k = draw_channels(r, 40);
  } else if (kind < 0.88) {
    c.groups = r.between(2, 5);
    c.c = c.groups * (r.chance(0.5) ? multiple_of_8(r, 5) : r.between(1, 20));
    c.k = c.groups * (r.chance(0.6) ? multiple_of_8(r, 8) : r.between(1, 12));
  } else {
    c.groups = c.c = r.chance(0.5) ? multiple_of_8(r, 12) : r.between(2, 80);
    c.k = c.c * r.one_of({1, 1, 1, 2, 8});
  }
  if (r.chance(0.2)) c.layout = Layout::nchw;
}

Conv2d draw_convolution(Random& r) {
  Conv2d c;
  draw_taps(r, c.r, c.s);
  if (r.chance(0.3)) c.stride = {r.between(1, 3), r.between(1, 3)};
  if (r.chance(0.04)) c.stride = {r.between(1, 11), r.between(9, 11)};
  if (r.chance(0.25)) c.dilation = {r.between(1, 3), r.between(1, 3)};
  draw_groups(r, c);
  return c;
}

ConvTranspose2d draw_transposed(Random& r) {
  ConvTranspose2d t;
  t.r = r.between(1, 5), t.s = r.chance(0.7) ? t.r : r.between(1, 5);
  t.stride = {r.between(1, 3), r.between(1, 3)};
  if (r.chance(0.2)) t.dilation = {r.between(1, 2), r.between(1, 2)};
  draw_groups(r, t);
  return t;
}

Gemm draw_product(Random& r) {
  Gemm g{.batch = r.chance(0.35) ? 2 : 1, .n = draw_channels(r, 60), .k = draw_channels(r, 60)};
  g.transpose_a = r.chance(0.5), g.transpose_b = r.chance(0.5);
  return g;
}

// Matrices of a batch, rows of the image and of the main result, with gaps between them
void draw_gaps(Random& r, Case& c) {
  c.gaps = {};
  if (c.product && c.product->batch > 1 && r.chance(0.4)) c.gaps.matrices = 8 * r.between(1, 5);
  const bool rows = !c.transposed && c.conv.layout == Layout::nhwc &&
                    (!c.product || (c.product->batch == 1 && !c.product->transpose_a));
  if (rows && c.conv.c % 8 == 0 && r.chance(0.12)) c.gaps.image = 8 * r.between(1, 5);
}

}  // namespace

void redraw_extents(Random& r, Case& c, bool large) {
  const Budget budget(large);
  const DType type = c.conv.dtype_x;
  if (c.product) {
    extents_of(r, *c.product, budget);
    c.conv = plan::as_convolution(*c.product).conv;
  } else if (c.transposed) {
    extents_of(r, *c.transposed, budget);
    c.conv = plan::as_convolution(*c.transposed).conv;
  } else {
    extents_of(r, c.conv, budget);
  }
  c.conv.dtype_x = c.conv.dtype_w = type;
  draw_gaps(r, c);
}

void draw_depthwise(Random& r, Case& c, bool large) {
  const DType type = draw_dtype(r);
  c.product.reset(), c.transposed.reset();
  c.conv = draw_convolution(r);
  c.conv.layout = Layout::nhwc;
  c.conv.groups = c.conv.c = r.chance(0.5) ? multiple_of_8(r, 12) : 2 * r.between(1, 60);
  c.conv.k = c.conv.c * r.one_of({1, 1, 1, 2, 4});
  c.conv.dtype_x = c.conv.dtype_w = type;
  redraw_extents(r, c, large);
}

void draw_contraction(Random& r, Case& c, bool large) {
  const DType type = draw_dtype(r);
  c.product.reset(), c.transposed.reset(), c.conv = {};
  const double kind = r.uniform(0, 1);
  if (kind < 0.35) {
    c.product = draw_product(r);
    c.product->dtype_a = c.product->dtype_b = type;
  } else if (kind < 0.85) {
    c.conv = draw_convolution(r);
  } else {
    c.transposed = draw_transposed(r);
    c.transposed->dtype_x = c.transposed->dtype_w = type;
  }
  c.conv.dtype_x = c.conv.dtype_w = type;
  redraw_extents(r, c, large);
}

}  // namespace unisono::gpu
