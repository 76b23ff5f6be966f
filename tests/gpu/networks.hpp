#pragma once
/// Networks for tests and benchmarks on a GPU, with random weights.

#include <map>
#include <string>
#include <vector>

#include "jit/jit.hpp"
#include "unisono/network.hpp"

namespace unisono::gpu {

struct UNetShape {
  std::int64_t inputs = 3, classes = 10;
  std::vector<std::int64_t> channels{16, 32, 64};  ///< by level; the resolution halves from one to the next
  int groups = 8;
};
/// Two Conv3x3, GroupNorm, Mish a level, skips by concatenation, nearest upsampling, one sigmoid heatmap a class. Input
/// "image" (batch, inputs, height, width), output "heatmaps".
Network heatmap_unet(const UNetShape& shape);

/// A residual block as diffusion models have them: GroupNorm and SiLU ahead of each convolution, a time embedding added
/// between. Inputs "x" (batch, c, height, width) and "time" (batch, width_of_time), output "y".
Network residual_block(std::int64_t channels, int groups, std::int64_t width_of_time);

/// What has no kernel of the tensor cores and what stands between: groups, transposed convolutions, odd channels,
/// pools, pads, slices, resizes, transposes, a plane as operand. Input "x" (batch, 8, height, width), outputs "y" and
/// "z".
Network oddities();

/// Pixels of few channels that widen, meet depthwise filters of every kind, and narrow: strides, 3x3 and 5x5, dilation,
/// two outputs a channel, squeeze and excitation, a residual, a slice of a concatenation; those that other kernels
/// compute: odd channels, an upsampled image. Input "x" (batch, 16, height, width), outputs "a" to "d".
Network inverted_bottlenecks();

/// Convolutions of groups: of 4, 16, 32 and 8 channels a group, with a residual, a stride, a normalisation, a pooled
/// store; and one of odd channels, which tiles of several groups do not serve. Input "x" (batch, 16, height, width),
/// outputs "a" to "d".
Network grouped_bottlenecks();

/// Pools and upsamplings by 2 that kernels store, also into slices and beside other results, and those that they
/// cannot. Input "x" (batch, 16, height, width), outputs "y", "z" and "small".
Network resampling();

/// Pixels to classes: global pooling, linear layers, layer_norm, softmax. Input "x" (batch, c, height, width), output
/// "p".
Network classifier(std::int64_t channels, std::int64_t classes);

/// Normalisations with no convolution before them: groups over more columns than a block takes at a time, groups that
/// end within an octet, one channel a group, odd channels. Inputs "wide" (batch, 2100, h, w) and "image" (batch, 37, h,
/// w), outputs "a", "b" and "c".
Network normalisations();

/// First layers of few channels: a 7x7 of stride 2, and a dilated 3x5 with more padding on one side; odd channels in
/// and out. Inputs "x" (batch, 3, height, width), "z" (batch, 8, rows, columns) and "odd" (batch, 5, lines, pixels),
/// outputs "a" to "d".
Network stems();

/// Images upsampled ahead of convolutions, and transposed convolutions: with an embedding, normalised, with a second
/// store, a residual, into a slice, of 2x2, 1x1, 5x3 and even filters. Inputs "x" (batch, 16, height, width), "time"
/// (batch, 24) and "r" (batch, 24, rows, columns) of twice the extents, outputs "a" to "f".
Network upsampled_images();

/// Normalisations over concatenations: groups across the boundary of a plain part and one by phases, a part that is
/// upsampled, a channel a group, and parts whose kernels give no moments. Input "x" (batch, 16, height, width), outputs
/// "a" to "e".
Network joined_normalisations();

/// A convolution of an image that is upsampled ahead of it, by itself. Input "x" (batch, channels, height, width),
/// output "y".
Network upsampled_image(std::int64_t channels);

/// Small products of one input: embeddings of time that blocks add, whole or as scale and shift, with operators behind
/// them, as the image of further products; some that stay by themselves. Inputs "x" (batch, 16, height, width) and
/// "time" (batch, 24), outputs "a" to "d".
Network embeddings();

/// What exporters make of GroupNorm and of ConvNeXt's ending: scale and shift of shape (C,1,1) behind a convolution,
/// and a LayerNorm over the last axis of single pixels, with vectors along that. Inputs "x" (batch, 16, height, width)
/// and "pixels" (1, 40, 1, 1), outputs "y" (batch, 32, height, width) and "z" (1, 40, 1, 1).
Network exported_normalisations();

/// Layers that each read a concatenation of all before them: a run of the last concatenation, one from its middle, one
/// with another order, one that is a residual, one that is an output. Input "x" (batch, 16, height, width), outputs "a"
/// to "d".
Network dense_layers();

/// Attention whose q, k and v are columns of one product, scaled by roots on both sides. Input "x" (batch, rows, 16),
/// output "y".
Network packed_attention(std::int64_t rows, std::int64_t heads, std::int64_t width);

/// Attention with a constant and a given mask, and with a causal one that leaves a row no key, whose NaN become 0.
/// Inputs "x" (batch, 21, 24) and "mask" (batch, 1, 1, 21), outputs "y" and "z".
Network masked_attention();

/// Attention of matrices of rank 3 to 77 keys. Inputs "x" (batch, rows, 24) and "text" (batch, 77, 24), output "y".
Network cross_attention();

/// Attention of four heads that share their keys and values, of other widths. Inputs "x" (batch, rows, 24) and "text"
/// (batch, keys, 24), output "y".
Network shared_keys();

/// Attention to one key and value that are repeated, whose result is that value. Inputs "x" (batch, rows, 24) and
/// "text" (batch, 1, 24), output "y".
Network repeated_keys();

/// Attention with a bias for each head and a constant mask that hides later keys, of odd lengths; heads that share keys
/// by groups. Inputs "x" (batch, 29, 24) and "text" (batch, 45, 24), outputs "y" and "z".
Network biased_attention();

/// Heads whose columns are rotated by tables of sines: halves, pairs, parts of complex numbers, all rows or all but the
/// first. Input "x" (2, rows, 16), outputs "halves", "pairs" and "parts".
Network rotated_heads(std::int64_t rows, std::int64_t heads, std::int64_t width);

/// Normalisations from primitives: unit vectors, RMSNorm ahead of a rotation, softmax, LayerNorm over channels. Input
/// "x" (2, rows, 16), outputs "unit", "rms", "softmax" and "layer norm".
Network normalised_lines(std::int64_t rows, std::int64_t heads, std::int64_t width);

/// Pixels that are put into another order, added to and normalised, by a permute and by a table; heads that small
/// matrices mix. Inputs "x" (2, 12, 16) and "heads" (2, 1100, 4), outputs "y", "z" and "mixed".
Network windows_and_residuals(std::int64_t width);

/// Products of computed tensors that are no attention. Inputs "x" (batch, 5, 13, 9), "z" (5, 9, 70), "rows" (batch,
/// 130, 40) and "other" (batch, 66, 40), outputs "a" to "e".
Network products_of_tensors();

/// A convolution whose filter's gradient is asked for: its image (N,C,H,W) and number of filters.
struct FilterGradientCase {
  std::string name;
  std::vector<std::int64_t> x;
  std::int64_t filters = 1;
  operators::FilterGradient attributes;
  std::vector<std::int64_t> gradient_shape() const;  ///< of the convolution's result
};
const std::vector<FilterGradientCase>& filter_gradient_cases();
/// The gradients of filters of all these: 3x3, stems, strides, dilation, groups of even and odd channels, depthwise,
/// one filter, one pixel. Inputs "NAME x" and "NAME g" of each case, outputs "NAME". `read`: these are
/// relus of the gradients, which then lie in 16 bits and not in f32.
Network filter_gradients(bool read);
std::map<std::string, std::vector<std::int64_t>> filter_gradient_shapes();

/// Transposed convolutions whose filters are inputs, or computed: gradients of images. Inputs "g" (batch, 16, height,
/// width) and the filters "plain" (16, 24, 3, 3), "odd" (16, 11, 3, 5), "strided" and "dilated" (16, 8, 3, 3) and
/// "computed" (16, 32, 1, 1), outputs "plain y" and so on.
Network gradients_of_images();

/// Gated units: halves of one product, interleaved columns, two products; and what is none. Input "x" (batch, rows,
/// 40), outputs "a" to "g".
Network gated_units();

/// Gated convolutions: halves of one, two of one image, rows of pixels, few pixels of many channels; and what is none.
/// Inputs "x" (batch, 16, 13, 18), "row" (batch, 16, 40) and "deep" (batch, 2048, 4, 4), outputs "a" to "i".
Network gated_convolutions();

/// Linear layers with losses and other reductions over everything. Inputs "x" (batch, 40), "t" (batch, 24) and "s"
/// (batch, 1), outputs "mean", "sum", "of odd columns", "values" and "largest".
Network losses();

/// Means and sums over the pixels of what convolutions make, squeeze and excitation among them. Input "x" (batch, 16,
/// height, width), outputs "y" and "sums".
Network pooled_convolutions();

/// Squeeze and excitation: two layers of the mean over an image's pixels, of odd channels, of many, by linear layers;
/// and what is none. Inputs "x" (batch, 16, height, width) and "z" (batch, 2100, 3, 3), outputs "a" to "h".
Network squeeze_excitations();

/// Convolutions of volumes: normalised, strided and dilated along each axis in its own way, with a residual, of few and
/// odd channels, of single voxels, of a concatenation, of groups. Inputs "x" (batch, 16, 5, 9, 7) and "odd" (batch, 3,
/// 6, 7, 11), outputs "a" to "e".
Network volumes();

/// Conv3d 3x3x3, InstanceNorm, LeakyReLU. Input "x" (batch, channels, planes, 12, 20), output "y".
Network volume_block(std::int64_t channels, std::int64_t stride, std::int64_t planes = 16);

/// Filters and matrices that are inputs, or computed of such: as kernels read them, and in other orders. Inputs "x"
/// (batch, 12, height, width), "wide" (batch, 32, height, width), "colours" (batch, 3, lines, pixels), "rows" (batch,
/// 24) and "odd rows" (batch, 13), all others of one size; outputs "a" to "l".
Network given_filters();

/// What the tests of networks ask of the compiler on an H200.
std::vector<jit::Request> network_requests();

}  // namespace unisono::gpu
