#pragma once
/// The contractions that an epilogue graph may follow, and their iteration space (m, n, b).

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "unisono/conv_attributes.hpp"
#include "unisono/dtype.hpp"

namespace unisono {

/// acc[b, i, j] = Σ_k A[b, i, k]·B[b, k, j].
/// A is (batch, m, k), or (batch, k, m) if transpose_a; B is (batch, k, n), or (batch, n, k) if transpose_b.
/// Row m of the epilogue is b·m + i. Outputs with axes [m,n] are (batch, m, n). If batch is 1, all of these may be
/// given as matrices, without the first extent.
///
/// With products = 2 there are two right operands of the same shape and dtype, B0 and B1, and two accumulators,
/// acc0 = A·B0 and acc1 = A·B1. A is read once.
///
/// With group_rows it is a grouped product: the rows of A form consecutive groups, each with its own B:
/// acc[i, j] = Σ_k A[i, k]·B[g, k, j] for a row i of group g. Then m is the sum of group_rows, batch is 1, B is
/// (groups, k, n), or (groups, n, k) if transpose_b, and A is not transposed. The epilogue sees one matrix of m rows.
struct Gemm {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType dtype_a = DType::f32, dtype_b = DType::f32;
  int products = 1;                           ///< 1, or 2: a dual product
  std::vector<std::int64_t> group_rows = {};  ///< rows of each group; empty: not a grouped product
};

enum class Layout : std::uint8_t { nhwc, nchw };

/// acc[b, p, q, k] = Σ_{r,s,c} X[b, p·stride_h + r·dilation_h − pad_top, q·stride_w + s·dilation_w − pad_left, c]·W[k,
/// r, s, c], zero outside the image; with groups, output channel k sees the c of its own group (cross-correlation, as
/// in PyTorch and ONNX). Row m is (b·P + p)·Q + q, column n is k. Layout nhwc: X (N,H,W,C), W (K,R,S,C/groups), outputs
/// [m,n] (N,P,Q,K). Layout nchw: X (N,C,H,W), W (K,C/groups,R,S), outputs [m,n] (N,K,P,Q); operands with axes [m,n]
/// likewise. ConvAttributes describes stride, padding, dilation and groups.
///
/// With products = 2 there are two filters of the same shape and dtype, W0 and W1, and two accumulators, acc0 of W0 and
/// acc1 of W1. X is read once. The second filter is Arguments::right1.
struct Conv2d {
  std::int64_t n = 1, h = 0, w = 0, c = 0;  ///< input
  std::int64_t k = 0, r = 1, s = 1;         ///< filter
  Pair stride = 1;
  Margins pad = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  Layout layout = Layout::nhwc;
  DType dtype_x = DType::f32, dtype_w = DType::f32;
  int products = 1;  ///< 1, or 2: a dual convolution

  ConvAttributes attributes() const { return {stride, pad, 0, dilation, groups}; }
};

/// The transpose (gradient with respect to the input) of Conv2d, as in PyTorch and ONNX: output extents are
/// P = (H − 1)·stride_h − pad_top − pad_bottom + dilation_h·(R − 1) + output_pad_h + 1, likewise Q.
/// Layout nhwc: X (N,H,W,C), W (C,R,S,K/groups), outputs (N,P,Q,K). Layout nchw: X (N,C,H,W), W (C,K/groups,R,S).
struct ConvTranspose2d {
  std::int64_t n = 1, h = 0, w = 0, c = 0;
  std::int64_t k = 0, r = 1, s = 1;
  Pair stride = 1;
  Margins pad = 0;
  Pair output_pad = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  Layout layout = Layout::nhwc;
  DType dtype_x = DType::f32, dtype_w = DType::f32;

  ConvAttributes attributes() const { return {stride, pad, output_pad, dilation, groups}; }
};

/// Returns the gradient of a convolution with respect to its image (dgrad). Its image is dY, of the shape of the
/// convolution's output; its filter is the convolution's, unchanged; its result has the shape of the convolution's
/// image. Throws UserError as extents() does, and for a dual convolution.
ConvTranspose2d input_gradient(const Conv2d& convolution);

/// acc[b, o, p, q, k] = Σ_{t,r,s,c} X[b, o·stride_d + t·dilation_d − before_d, p·stride_h + r·dilation_h − before_h,
/// q·stride_w + s·dilation_w − before_w, c]·W[k, t, r, s, c], zero outside the volume; groups as of Conv2d.
/// X (N,D,H,W,C), W (K,T,R,S,C/groups), outputs and operands [m,n] (N,O,P,Q,K). Row m is ((b·O + o)·P + p)·Q + q: the
/// planes of a volume count as one image of O·P image rows in Extents and Coordinate::h.
struct Conv3d {
  std::int64_t n = 1, d = 0, h = 0, w = 0, c = 0;  ///< input
  std::int64_t k = 0, t = 1, r = 1, s = 1;         ///< filter
  Triple stride = 1;
  Triple before = 0, after = 0;  ///< zeros before the first and after the last plane, row and column
  Triple dilation = 1;
  std::int64_t groups = 1;
  DType dtype_x = DType::f32, dtype_w = DType::f32;
};

/// The gradient of a Conv2d with respect to its filter (wgrad). The fields are those of the convolution:
/// acc[k, r, s, c] = Σ_{b,p,q} dY[b, p, q, k]·X[b, p·stride_h + r·dilation_h − pad_top, q·stride_w + s·dilation_w −
/// pad_left, c], zero outside the image. A is dY (N,P,Q,K), B is X (N,H,W,C). Row m is k, column n is (r·S + s)·C + c;
/// outputs and operands [m,n] are filters (K,R,S,C). The epilogue sees one image.
struct FilterGradient2d {
  std::int64_t n = 1, h = 0, w = 0, c = 0;  ///< X
  std::int64_t k = 0, r = 1, s = 1;         ///< the filter
  Pair stride = 1;
  Margins pad = 0;
  Pair dilation = 1;
  DType dtype_y = DType::f32, dtype_x = DType::f32;

  ConvAttributes attributes() const { return {stride, pad, 0, dilation, 1}; }
  /// The convolution whose filter's gradient it is.
  Conv2d convolution() const {
    return {.n = n,
            .h = h,
            .w = w,
            .c = c,
            .k = k,
            .r = r,
            .s = s,
            .stride = stride,
            .pad = pad,
            .dilation = dilation,
            .dtype_x = dtype_x,
            .dtype_w = dtype_y};
  }
};

using Contraction = std::variant<Gemm, Conv2d, ConvTranspose2d, Conv3d, FilterGradient2d>;

/// The iteration space of the epilogue.
struct Extents {
  std::int64_t images = 1;  ///< b
  std::int64_t height = 0;  ///< P of a convolution, O·P of volumes; m of a GEMM; K of a filter's gradient
  std::int64_t width = 1;   ///< Q of a convolution; 1 for a GEMM and a filter's gradient
  std::int64_t cols = 0;    ///< n

  std::int64_t rows_per_image() const { return height * width; }
  std::int64_t rows() const { return images * rows_per_image(); }  ///< m
  bool operator==(const Extents&) const = default;
};

/// Checks the description and returns its iteration space. Throws UserError naming the wrong field: an extent or an
/// output below 1, channels that are not a multiple of groups, and the like.
Extents extents(const Contraction& contraction);

/// Returns O, the planes of a volume's result. Does not check the description; extents() does.
std::int64_t output_planes(const Conv3d& volume);

/// Returns the number of accumulators: Gemm::products, Conv2d::products, or 1.
int product_count(const Contraction& contraction);

/// Returns whether its operands are called left and right (matrices; dY and X) rather than image and filter.
bool has_left_and_right(const Contraction& contraction);

/// Returns the shapes of the two operands. Both right operands, or filters, of a dual contraction have shape_b().
std::vector<std::int64_t> shape_a(const Contraction& contraction);
std::vector<std::int64_t> shape_b(const Contraction& contraction);

/// Returns the shape in memory of a value with axes [m,n]: (batch,m,n), (N,P,Q,K), (N,K,P,Q), (N,O,P,Q,K) or (K,R,S,C).
std::vector<std::int64_t> shape_mn(const Contraction& contraction);

/// Returns the number of products that one accumulator sums: k, R·S·C/groups, T·R·S·C/groups of volumes, or N·P·Q of a
/// filter's gradient.
std::int64_t depth(const Contraction& contraction);

/// Returns the number of floating-point operations; a multiply–add counts as two.
double flop(const Contraction& contraction);

/// Returns a description such as "conv2d 8x64x64x320 -> 320, 3x3, pad 1".
std::string to_string(const Contraction& contraction);

}  // namespace unisono
