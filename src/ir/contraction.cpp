#include "unisono/contraction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "unisono/error.hpp"

namespace unisono {

namespace {

constexpr std::int64_t largest_extent = std::int64_t{1} << 31;

void check_range(std::string_view what, std::string_view field, std::int64_t value, std::int64_t lowest) {
  if (value < lowest || value > largest_extent)
    throw UserError(fmt::format("{}: {} is {}; expected {} to 2^31", what, field, value, lowest));
}

// 2^46 elements are above any memory, and leave room for products of two such counts with small factors
void check_size(std::string_view what, std::string_view tensor, const std::vector<std::int64_t>& shape) {
  double elements = 1;
  for (const auto e : shape) elements *= static_cast<double>(e);
  if (elements > 0x1p46)
    throw UserError(
        fmt::format("{}: the {} would have {} elements; the limit is 2^46", what, tensor, fmt::join(shape, "x")));
}

// Accumulators, of either kind of contraction that may have two
template <class C>
void check_product_count(std::string_view what, const C& c) {
  if (c.products != 1 && c.products != 2)
    throw UserError(fmt::format("{}: products is {}; expected 1, or 2 for two {} of the same shape and dtype", what,
                                c.products, std::is_same_v<C, Gemm> ? "right operands" : "filters"));
}

template <class C>
void check_convolution(std::string_view what, const C& c) {
  for (const auto& [field, value] :
       {std::pair{"n", c.n}, {"h", c.h}, {"w", c.w}, {"c", c.c}, {"k", c.k}, {"r", c.r}, {"s", c.s}})
    check_range(what, field, value, 1);
  check_attributes(c.attributes(), std::is_same_v<C, ConvTranspose2d>, what);
  const std::int64_t groups = c.attributes().groups;
  if (c.c % groups != 0 || c.k % groups != 0)
    throw UserError(fmt::format("{}: {} input and {} output channels with groups={}; both must be multiples of groups",
                                what, c.c, c.k, groups));
  check_size(what, "image", {c.n, c.h, c.w, c.c});
  check_size(what, "filter", {c.k, c.r, c.s, c.c / groups});
}

Extents check_output(std::string_view what, std::int64_t images, std::int64_t p, std::int64_t q, std::int64_t k) {
  if (p < 1 || q < 1)
    throw UserError(
        fmt::format("{}: the output would be {}x{} pixels; the filter does not fit the padded image", what, p, q));
  check_size(what, "output", {images, p, q, k});
  return {.images = images, .height = p, .width = q, .cols = k};
}

// Right operands in B
std::int64_t matrices_b(const Gemm& g) {
  return g.group_rows.empty() ? g.batch : static_cast<std::int64_t>(g.group_rows.size());
}

void check_groups(const Gemm& g) {
  if (g.group_rows.empty()) return;
  std::int64_t sum = 0;
  for (const std::int64_t rows : g.group_rows) check_range("gemm", "rows of a group", rows, 1), sum += rows;
  if (sum != g.m)
    throw UserError(fmt::format("gemm: m is {}, and its groups have {} rows in all; expected the same", g.m, sum));
  if (g.batch != 1 || g.transpose_a || g.products != 1)
    throw UserError(
        "gemm: a grouped product has batch 1, an A that is not transposed, and one B a group; give it no batch, "
        "transpose_a and second product");
}

Extents extents_of(const Gemm& g) {
  check_range("gemm", "batch", g.batch, 1);
  check_range("gemm", "m", g.m, 1);
  check_range("gemm", "n", g.n, 1);
  check_range("gemm", "k", g.k, 1);
  check_product_count("gemm", g);
  check_groups(g);
  check_size("gemm", "left operand", {g.batch, g.m, g.k});
  check_size("gemm", "right operand", {matrices_b(g), g.k, g.n});
  return check_output("gemm", g.batch, g.m, 1, g.n);
}

// The extents of a convolution's result
template <class C>
Extents output_of(std::string_view what, const C& c) {
  check_size(what, "padded image", {c.n, c.h + c.pad.top + c.pad.bottom, c.w + c.pad.left + c.pad.right, c.c});
  const auto out = [](std::int64_t x, std::int64_t before, std::int64_t after, std::int64_t dilation,
                      std::int64_t filter, std::int64_t stride) {
    const auto room = x + before + after - dilation * (filter - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  };
  return check_output(what, c.n, out(c.h, c.pad.top, c.pad.bottom, c.dilation.h, c.r, c.stride.h),
                      out(c.w, c.pad.left, c.pad.right, c.dilation.w, c.s, c.stride.w), c.k);
}

Extents extents_of(const Conv2d& c) {
  check_convolution("conv2d", c);
  check_product_count("conv2d", c);
  return output_of("conv2d", c);
}

Extents extents_of(const ConvTranspose2d& c) {
  check_convolution("conv_transpose2d", c);
  const auto p = (c.h - 1) * c.stride.h - c.pad.top - c.pad.bottom + c.dilation.h * (c.r - 1) + c.output_pad.h + 1;
  const auto q = (c.w - 1) * c.stride.w - c.pad.left - c.pad.right + c.dilation.w * (c.s - 1) + c.output_pad.w + 1;
  check_size("conv_transpose2d", "uncropped output",
             {c.n, p + c.pad.top + c.pad.bottom, q + c.pad.left + c.pad.right, c.k});
  return check_output("conv_transpose2d", c.n, p, q, c.k);
}

void check_triple(std::string_view field, const Triple& x, std::int64_t least, std::int64_t most) {
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (x[axis] < least || x[axis] > most)
      throw UserError(fmt::format("conv3d: {} is {}x{}x{}; expected {} to 2^24", field, x.d, x.h, x.w, least));
}

// Outputs along an axis of a volume (0: planes); below 1 if the filter does not fit
std::int64_t output_extent(const Conv3d& c, std::size_t axis) {
  const std::int64_t x = axis == 0 ? c.d : axis == 1 ? c.h : c.w, taps = axis == 0 ? c.t : axis == 1 ? c.r : c.s;
  const std::int64_t room = x + c.before[axis] + c.after[axis] - c.dilation[axis] * (taps - 1) - 1;
  return room < 0 ? 0 : room / c.stride[axis] + 1;
}

Extents extents_of(const Conv3d& c) {
  constexpr std::int64_t largest_step = std::int64_t{1} << 24;
  for (const auto& [field, value] : {std::pair{"n", c.n},
                                     {"d", c.d},
                                     {"h", c.h},
                                     {"w", c.w},
                                     {"c", c.c},
                                     {"k", c.k},
                                     {"t", c.t},
                                     {"r", c.r},
                                     {"s", c.s},
                                     {"groups", c.groups}})
    check_range("conv3d", field, value, 1);
  check_triple("stride", c.stride, 1, largest_step), check_triple("dilation", c.dilation, 1, largest_step);
  check_triple("before", c.before, 0, largest_step), check_triple("after", c.after, 0, largest_step);
  if (c.c % c.groups != 0 || c.k % c.groups != 0)
    throw UserError(
        fmt::format("conv3d: {} input and {} output channels with groups={}; both must be multiples of "
                    "groups",
                    c.c, c.k, c.groups));
  check_size("conv3d", "padded volume",
             {c.n, c.d + c.before.d + c.after.d, c.h + c.before.h + c.after.h, c.w + c.before.w + c.after.w, c.c});
  check_size("conv3d", "filter", {c.k, c.t, c.r, c.s, c.c / c.groups});
  const std::int64_t planes = output_extent(c, 0), height = output_extent(c, 1), width = output_extent(c, 2);
  if (std::min({planes, height, width}) < 1)
    throw UserError(
        fmt::format("conv3d: the output would be {}x{}x{} voxels; the filter does not fit the padded volume", planes,
                    height, width));
  check_size("conv3d", "output", {c.n, planes, height, width, c.k});
  return {.images = c.n, .height = planes * height, .width = width, .cols = c.k};
}

Extents extents_of(const FilterGradient2d& c) {
  check_convolution("filter_gradient2d", c);
  const Extents e = output_of("filter_gradient2d", c);
  check_size("filter_gradient2d", "gradient of the output", {e.images, e.height, e.width, e.cols});
  return {.images = 1, .height = c.k, .width = 1, .cols = c.r * c.s * c.c};
}

using Shape = std::vector<std::int64_t>;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang before 17 needs it said

template <class C>
Shape image_shape(const C& c) {
  return c.layout == Layout::nhwc ? Shape{c.n, c.h, c.w, c.c} : Shape{c.n, c.c, c.h, c.w};
}

}  // namespace

ConvTranspose2d input_gradient(const Conv2d& c) {
  const Extents e = extents(c);
  if (c.products != 1)
    throw UserError(
        "input_gradient: a dual convolution; the gradient of its image is the sum of two, one for each filter");
  const auto left = [](std::int64_t x, std::int64_t before, std::int64_t after, std::int64_t reach,
                       std::int64_t stride) { return (x + before + after - reach - 1) % stride; };
  return {.n = c.n,
          .h = e.height,
          .w = e.width,
          .c = c.k,
          .k = c.c,
          .r = c.r,
          .s = c.s,
          .stride = c.stride,
          .pad = c.pad,
          .output_pad = {left(c.h, c.pad.top, c.pad.bottom, c.dilation.h * (c.r - 1), c.stride.h),
                         left(c.w, c.pad.left, c.pad.right, c.dilation.w * (c.s - 1), c.stride.w)},
          .dilation = c.dilation,
          .groups = c.groups,
          .layout = c.layout,
          .dtype_x = c.dtype_x,
          .dtype_w = c.dtype_w};
}

std::int64_t output_planes(const Conv3d& volume) { return output_extent(volume, 0); }

Extents extents(const Contraction& contraction) {
  return std::visit([](const auto& c) { return extents_of(c); }, contraction);
}

bool has_left_and_right(const Contraction& contraction) {
  return std::holds_alternative<Gemm>(contraction) || std::holds_alternative<FilterGradient2d>(contraction);
}

int product_count(const Contraction& contraction) {
  if (const auto* gemm = std::get_if<Gemm>(&contraction)) return gemm->products;
  const auto* conv = std::get_if<Conv2d>(&contraction);
  return conv ? conv->products : 1;
}

Shape shape_a(const Contraction& contraction) {
  return std::visit(Overloaded{[](const Gemm& g) {
                                 return g.transpose_a ? Shape{g.batch, g.k, g.m} : Shape{g.batch, g.m, g.k};
                               },
                               [](const Conv3d& c) {
                                 return Shape{c.n, c.d, c.h, c.w, c.c};
                               },
                               [](const FilterGradient2d& c) { return shape_mn(c.convolution()); },
                               [](const auto& c) { return image_shape(c); }},
                    contraction);
}

Shape shape_b(const Contraction& contraction) {
  return std::visit(Overloaded{[](const Gemm& g) {
                                 return g.transpose_b ? Shape{matrices_b(g), g.n, g.k} : Shape{matrices_b(g), g.k, g.n};
                               },
                               [](const FilterGradient2d& c) {
                                 return Shape{c.n, c.h, c.w, c.c};
                               },
                               [](const Conv2d& c) {
                                 return c.layout == Layout::nhwc ? Shape{c.k, c.r, c.s, c.c / c.groups}
                                                                 : Shape{c.k, c.c / c.groups, c.r, c.s};
                               },
                               [](const Conv3d& c) {
                                 return Shape{c.k, c.t, c.r, c.s, c.c / c.groups};
                               },
                               [](const ConvTranspose2d& c) {
                                 return c.layout == Layout::nhwc ? Shape{c.c, c.r, c.s, c.k / c.groups}
                                                                 : Shape{c.c, c.k / c.groups, c.r, c.s};
                               }},
                    contraction);
}

Shape shape_mn(const Contraction& contraction) {
  const Extents e = extents(contraction);
  return std::visit(Overloaded{[](const Gemm& g) {
                                 return Shape{g.batch, g.m, g.n};
                               },
                               [&](const Conv3d& c) {
                                 const std::int64_t planes = output_planes(c);
                                 return Shape{e.images, planes, e.height / planes, e.width, e.cols};
                               },
                               [](const FilterGradient2d& c) {
                                 return Shape{c.k, c.r, c.s, c.c};
                               },
                               [&](const auto& c) {
                                 return c.layout == Layout::nhwc ? Shape{e.images, e.height, e.width, e.cols}
                                                                 : Shape{e.images, e.cols, e.height, e.width};
                               }},
                    contraction);
}

std::int64_t depth(const Contraction& contraction) {
  return std::visit(Overloaded{[](const Gemm& g) { return g.k; },
                               [](const FilterGradient2d& c) { return extents(c.convolution()).rows(); },
                               [](const Conv3d& c) { return c.t * c.r * c.s * (c.c / c.groups); },
                               [](const auto& c) { return c.r * c.s * (c.c / c.groups); }},
                    contraction);
}

double flop(const Contraction& contraction) {
  const Extents e = extents(contraction);
  const double multiplied = std::visit(Overloaded{[&](const ConvTranspose2d& c) {
                                                    return static_cast<double>(c.n * c.h * c.w) *
                                                           static_cast<double>(c.c * c.r * c.s) *
                                                           static_cast<double>(c.k) / static_cast<double>(c.groups);
                                                  },
                                                  [&](const auto&) {
                                                    return static_cast<double>(e.rows()) * static_cast<double>(e.cols) *
                                                           static_cast<double>(depth(contraction));
                                                  }},
                                       contraction);
  return 2 * multiplied * product_count(contraction);
}

namespace {
template <class C>
std::string describe_convolution(std::string_view name, const C& c) {
  return fmt::format("{} {}x{}x{}x{} -> {}, {}x{}{}{}, {}", name, c.n, c.h, c.w, c.c, c.k, c.r, c.s,
                     to_string(c.attributes()), c.layout == Layout::nchw ? ", nchw" : "", to_string(c.dtype_x));
}

std::string describe_gradient(const FilterGradient2d& c) {
  return fmt::format("filter_gradient2d {}x{}x{}x{} -> {}, {}x{}{}, {}", c.n, c.h, c.w, c.c, c.k, c.r, c.s,
                     to_string(c.attributes()), to_string(c.dtype_y));
}

std::string describe_product(const Gemm& g) {
  if (!g.group_rows.empty())
    return fmt::format("grouped gemm {} rows x {} x {}{}, {}", fmt::join(g.group_rows, "+"), g.n, g.k,
                       g.transpose_b ? ", B transposed" : "", to_string(g.dtype_a));
  return fmt::format("{}gemm {}{}x{}x{}{}{}, {}", g.products == 1 ? "" : "dual ",
                     g.batch == 1 ? "" : fmt::format("{} x ", g.batch), g.m, g.n, g.k,
                     g.transpose_a ? ", A transposed" : "", g.transpose_b ? ", B transposed" : "",
                     to_string(g.dtype_a));
}
}  // namespace

namespace {
std::string text_of(const Triple& x) {
  return x == Triple(x.d) ? fmt::format("{}", x.d) : fmt::format("{}x{}x{}", x.d, x.h, x.w);
}

std::string describe_volume(const Conv3d& c) {
  std::string text = fmt::format("conv3d {}x{}x{}x{}x{} -> {}, {}x{}x{}", c.n, c.d, c.h, c.w, c.c, c.k, c.t, c.r, c.s);
  if (c.stride != Triple(1)) text += ", stride " + text_of(c.stride);
  if (c.before != Triple(0) || c.after != Triple(0))
    text += ", pad " + text_of(c.before) + (c.after == c.before ? "" : " to " + text_of(c.after));
  if (c.dilation != Triple(1)) text += ", dilation " + text_of(c.dilation);
  if (c.groups != 1) text += fmt::format(", groups {}", c.groups);
  return text + ", " + std::string(to_string(c.dtype_x));
}
}  // namespace

std::string to_string(const Contraction& contraction) {
  return std::visit(
      Overloaded{[](const Gemm& g) { return describe_product(g); },
                 [](const FilterGradient2d& c) { return describe_gradient(c); },
                 [](const Conv2d& c) { return describe_convolution(c.products == 1 ? "conv2d" : "dual conv2d", c); },
                 [](const Conv3d& c) { return describe_volume(c); },
                 [](const ConvTranspose2d& c) { return describe_convolution("conv_transpose2d", c); }},
      contraction);
}

}  // namespace unisono
