#pragma once
/// The operators of a network that can be fused, and those that move images.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "unisono/conv_attributes.hpp"
#include "unisono/graph.hpp"
#include "unisono/network/index_operators.hpp"
#include "unisono/network/recurrence.hpp"
#include "unisono/network/shape.hpp"
#include "unisono/network/tensor_operators.hpp"

namespace unisono {

/// The operators. Inputs are listed in order; [x] is optional. All have one output.
namespace operators {

/// x (N,C,H,W), w (K,C/groups,R,S)[, bias (K)] → (N,K,P,Q); see unisono::Conv2d.
struct Conv2d : ConvAttributes {
  bool operator==(const Conv2d&) const = default;
};

/// x (N,C,H,W), w (C,K/groups,R,S)[, bias (K)] → (N,K,P,Q); see unisono::ConvTranspose2d.
struct ConvTranspose2d : ConvAttributes {
  bool operator==(const ConvTranspose2d&) const = default;
};

/// x (N,C,H,W), g (N,K,P,Q) → (K,C/groups,R,S): the gradient of a Conv2d of x with respect to its filter, given g, the
/// gradient with respect to its result. The attributes are the convolution's; `filter` is (R,S).
struct FilterGradient : ConvAttributes {
  Pair filter = 1;
  bool operator==(const FilterGradient&) const = default;
};

/// a (M,K) or (B,M,K), b (K,N)[, bias (N)] → (M,N) or (B,M,N). Only a of rank 2 may be transposed.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  bool operator==(const Gemm&) const = default;
};

/// An elementwise Op of one to three inputs, which broadcast against each other as in NumPy.
struct Elementwise {
  Op op = Op::add;
  Attributes attr = {};
  bool operator==(const Elementwise&) const = default;
};

/// x[, scale][, shift]: group_norm, instance_norm (per image, x of rank 4), layer_norm or rms_norm (over the channels
/// of each pixel, or over the last extent if x is not of rank 4). Scale and shift are (C).
struct Normalisation {
  Op op = Op::group_norm;
  int groups = 1;
  double eps = 1e-5;
  bool has_scale = false, has_shift = false;
  bool operator==(const Normalisation&) const = default;
};

/// x, scale, shift, mean, variance (each (C)): (x − mean)/sqrt(variance + eps)·scale + shift, with stored statistics.
struct BatchNorm {
  double eps = 1e-5;
  bool operator==(const BatchNorm&) const = default;
};

/// Over the channels of each pixel if x is of rank 4, else over the last extent.
struct Softmax {
  bool operator==(const Softmax&) const = default;
};

/// x (N,C,H,W). Pixels outside the image are ignored, unless count_pad counts padding as zeros of an average (but not
/// what only ceil_mode adds). With ceil_mode the last window may extend beyond the padding if it starts inside the
/// image or left padding.
struct Pool2d {
  bool average = false;
  Pair kernel = 1;
  Pair stride = 1;
  Margins pad = 0;
  Pair dilation = 1;
  bool ceil_mode = false;
  bool count_pad = false;
  bool operator==(const Pool2d&) const = default;
};

/// x (N,C,H,W) → (N,C,1,1)
struct GlobalAveragePool {
  bool operator==(const GlobalAveragePool&) const = default;
};

/// x (N,C,H,W)[, like] → (N,C,floor(H·scale_h),floor(W·scale_w)), or the given size if it is not 0; −1 is the extent of
/// that axis of `like`, whose elements are not read. Modes and coordinates that only Resample has are refused.
struct Resize {
  ResizeMode mode = ResizeMode::nearest;
  double scale_h = 1, scale_w = 1;
  std::int64_t height = 0, width = 0;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  NearestRounding rounding = NearestRounding::round_prefer_floor;
  bool operator==(const Resize&) const = default;
};

/// Any number of inputs with equal extents, except along `axis`.
struct Concat {
  int axis = 1;
  bool operator==(const Concat&) const = default;
};

/// Pads (or, if negative, crops) before and after each axis, with a value or as the mode says.
struct Pad {
  std::vector<std::int64_t> before, after;
  double value = 0;
  PadMode mode = PadMode::constant;
  bool operator==(const Pad&) const = default;
};

/// In the order of the logical shape: 0 is the input's extent at that position (or 0, if literal), one −1 is inferred,
/// and −2 − i is the extent of the input's axis i.
struct Reshape {
  std::vector<std::int64_t> shape;
  bool literal = false;
  bool operator==(const Reshape&) const = default;
};

/// → (product of the extents before axis, product of the others)
struct Flatten {
  int axis = 1;
  bool operator==(const Flatten&) const = default;
};

/// Output axis i is input axis order[i].
struct Transpose {
  std::vector<int> order;
  bool operator==(const Transpose&) const = default;
};

/// x, like → x broadcast to the common shape of the two (NumPy's rules). The fuser adds these for operands that do not
/// fit the axes of an epilogue.
struct Expand {
  bool operator==(const Expand&) const = default;
};

struct Identity {
  bool operator==(const Identity&) const = default;
};

/// Internal: a Conv2d that reads the image with each pixel repeated 2x2 times, made on a GPU of a resize before a
/// convolution. NetworkBuilder::apply and verify() refuse it.
struct UpsampledConv2d : ConvAttributes {
  bool operator==(const UpsampledConv2d&) const = default;
};
using EnlargedConv2d [[deprecated("UpsampledConv2d")]] = UpsampledConv2d;

/// Internal: a Conv3d, not transposed, of volumes whose planes are stacked into one image, made on a GPU of Conv3d:
/// x (N,C,D·H,W), w (K,C/groups,T·R,S)[, bias (K)] → (N,K,O·P,Q). NetworkBuilder::apply and verify() refuse it.
struct StackedConv3d {
  Conv3d conv;
  std::int64_t planes = 1, taps = 1;  ///< D and T
  bool operator==(const StackedConv3d&) const = default;
};

/// Internal: a Reshape to known extents whose tensors of rank 4 are read and written pixel by pixel, channels last.
/// NetworkBuilder::apply and verify() refuse it.
struct PixelReshape {
  std::vector<std::int64_t> shape;
  bool operator==(const PixelReshape&) const = default;
};

/// An axis of matrices in a tensor: the tensor's axis and the step in elements; axis −1: repeated.
struct MatrixAxis {
  int axis = -1;
  std::int64_t step = 0;
  bool operator==(const MatrixAxis&) const = default;
};

/// Matrices in a tensor: the first element along each of its axes, and the axes of the matrices: batch, rows, columns.
struct MatrixLayout {
  std::vector<std::int64_t> begin;
  std::vector<MatrixAxis> axes;
  bool operator==(const MatrixLayout&) const = default;
};

/// Internal: q, k, v[, mask[, mask]] → softmax(scale·q·kᵀ + masks)·v for a batch of matrices with any layout in these
/// tensors and the result, made on a GPU of two MatMuls with a softmax between. NetworkBuilder::apply and verify()
/// refuse it.
struct Attention {
  /// The rows in which NaN becomes 0: none, those without a key, or all.
  enum class Guard : std::uint8_t { none, unseeing, all };

  double scale = 1;
  Guard guard = Guard::none;
  std::vector<bool> replaces;  ///< for each mask: whether −∞ replaces the score, even NaN, instead of being added
  std::vector<std::int64_t> extents;   ///< batch, queries, keys, width, width of values; 0: from the tensors
  std::vector<MatrixLayout> operands;  ///< q, k, v, masks
  MatrixLayout result;
  bool operator==(const Attention&) const = default;
};

/// Internal: x, g[, scale] → the gradient of x, the input of a normalisation over groups of channels whose result has
/// the gradient g; or that → the gradient of its scale or shift, or its own sums over all but channels, (C). Made on a
/// GPU of the operators that gradients() writes. NetworkBuilder::apply and verify() refuse it.
struct NormGradient {
  enum class Of : std::uint8_t { input, scale, shift, sum };

  Of of = Of::input;
  std::int64_t groups = 1;
  double eps = 1e-5;
  bool operator==(const NormGradient&) const = default;
};

}  // namespace operators

using OperatorKind =
    std::variant<operators::Conv2d, operators::ConvTranspose2d, operators::Gemm, operators::Elementwise,
                 operators::Normalisation, operators::BatchNorm, operators::Softmax, operators::Pool2d,
                 operators::GlobalAveragePool, operators::Resize, operators::Concat, operators::Pad, operators::Reshape,
                 operators::Flatten, operators::Transpose, operators::Expand, operators::Identity, operators::Map,
                 operators::Reduce, operators::ArgReduce, operators::Slice, operators::Gather, operators::Tile,
                 operators::DepthToSpace, operators::ReshapeLike, operators::ShapeOf, operators::MatMul,
                 operators::Conv3d, operators::PoolNd, operators::Resample, operators::GatherElements,
                 operators::GatherND, operators::ScatterElements, operators::ScatterND, operators::Range,
                 operators::Triangle, operators::CumulativeSum, operators::TopK, operators::GridSample,
                 operators::Recurrence, operators::FilterGradient, operators::UpsampledConv2d, operators::StackedConv3d,
                 operators::PixelReshape, operators::Attention, operators::NormGradient>;

/// "conv2d", "max_pool", "mish", …
std::string to_string(const OperatorKind& kind);

}  // namespace unisono
