/// Convolutions of volumes, and their transposes: each is the other's gradient with respect to the volume.

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

using operators::Conv3d;

// Planes of x (N,C,D,H,W): `count` of them from `begin`, `step` apart, as images (N·count, C, H, W)
NetworkValue planes(NetworkValue x, std::int64_t begin, std::int64_t step, std::int64_t count) {
  const Extents64 all = extents_of(x);
  if (begin != 0 || step != 1 || count != all[2])
    x = x.builder().apply(
        operators::Slice{.starts = {begin}, .ends = {begin + (count - 1) * step + 1}, .steps = {step}, .axes = {2}},
        {x});
  return shaped(transpose(x, {0, 2, 1, 3, 4}), {all[0] * count, all[1], all[3], all[4]});
}

// The gradient of a convolution of x with respect to its filter of the shape w (K,C/groups,T,R,S), a plane of taps at a
// time: that of a convolution of images, which are the planes that this plane of taps meets
NetworkValue filter_gradient(const Conv3d& c, NetworkValue x, NetworkValue g, const Extents64& w) {
  operators::FilterGradient plane;
  plane.stride = {c.stride[1], c.stride[2]}, plane.dilation = {c.dilation[1], c.dilation[2]};
  plane.pad = {c.before[1], c.before[2], c.after[1], c.after[2]};
  plane.groups = c.groups, plane.filter = {w[3], w[4]};
  if (c.before[0] != 0 || c.after[0] != 0) x = pad(x, {0, 0, c.before[0], 0, 0}, {0, 0, c.after[0], 0, 0});
  const std::int64_t depth = extents_of(g)[2];
  const NetworkValue gradients = planes(g, 0, 1, depth);
  std::vector<NetworkValue> taps;
  for (std::int64_t t = 0; t < w[2]; ++t)
    taps.push_back(shaped(x.builder().apply(plane, {planes(x, t * c.dilation[0], c.stride[0], depth), gradients}),
                          {w[0], w[1], 1, w[3], w[4]}));
  return taps.size() == 1 ? taps[0] : concat(taps, 2);
}

// x (N,C,D,H,W), w (K,C/groups,T,R,S)
void derivative_of_conv(const Conv3d& c, const Use& use, InputGradients& result) {
  const Extents64 x = extents_of(use.in[0]), w = extents_of(use.in[1]);
  if (use.wanted[0]) {
    Conv3d back = c;
    back.transposed = true;
    for (std::size_t axis = 0; axis < 3; ++axis)
      back.output_pad[axis] =
          left_over(x[axis + 2] + c.before[axis] + c.after[axis], w[axis + 2], c.dilation[axis], c.stride[axis]);
    result[0] = use.net.apply(back, {use.gradient, use.in[1]});
  }
  if (use.wanted[1]) result[1] = filter_gradient(c, use.in[0], use.gradient, w);
}

// x (N,C,D,H,W), w (C,K/groups,T,R,S): the convolution with this filter leads from the result to x
void derivative_of_transposed(const Conv3d& c, const Use& use, InputGradients& result) {
  Conv3d back = c;
  back.transposed = false, back.output_pad = {0, 0, 0};
  Extents64 beyond(5, 0);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Surplus surplus = surplus_of(c.output_pad[axis], c.stride[axis], c.after[axis]);
    back.after[axis] -= surplus.padding, beyond[axis + 2] = -surplus.elements;
  }
  NetworkValue g = use.gradient;
  if (beyond != Extents64(5, 0)) g = pad(g, Extents64(5, 0), beyond);
  if (use.wanted[0]) result[0] = use.net.apply(back, {g, use.in[1]});
  if (use.wanted[1]) result[1] = filter_gradient(back, g, use.in[0], extents_of(use.in[1]));
}

}  // namespace

InputGradients derivative_of(const Conv3d& c, const Use& use) {
  InputGradients result(use.in.size());
  (c.transposed ? derivative_of_transposed : derivative_of_conv)(c, use, result);
  if (use.in.size() > 2 && use.wanted[2]) result[2] = reduced(ReduceOp::sum, use.gradient, {0, 2, 3, 4}, false);
  return result;
}

}  // namespace unisono::autodiff
