/// Convolutions of images, and their transposes: each is the other's gradient with respect to the image.

#include <algorithm>

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

std::int64_t span(std::int64_t taps, std::int64_t dilation) { return dilation * (taps - 1) + 1; }

// Bias (K) of a result (N,K,P,Q)
void add_bias_gradient(const Use& use, InputGradients& result) {
  if (use.in.size() > 2 && use.wanted[2]) result[2] = reduced(ReduceOp::sum, use.gradient, {0, 2, 3}, false);
}

// The rows and columns that the stride leaves of an image of these extents
Pair left_over(const ConvAttributes& c, const Extents64& x, const Extents64& w) {
  return {(x[2] + c.pad.top + c.pad.bottom - span(w[2], c.dilation.h)) % c.stride.h,
          (x[3] + c.pad.left + c.pad.right - span(w[3], c.dilation.w)) % c.stride.w};
}

}  // namespace

// x (N,C,H,W), w (K,C/groups,R,S)
InputGradients derivative_of(const operators::Conv2d& c, const Use& use) {
  InputGradients result(use.in.size());
  const Extents64 x = extents_of(use.in[0]), w = extents_of(use.in[1]);
  if (use.wanted[0]) {
    operators::ConvTranspose2d back{c};
    back.output_pad = left_over(c, x, w);
    result[0] = use.net.apply(back, {use.gradient, use.in[1]});
  }
  if (use.wanted[1]) {
    operators::FilterGradient filter{c};
    filter.filter = {w[2], w[3]};
    result[1] = use.net.apply(filter, {use.in[0], use.gradient});
  }
  add_bias_gradient(use, result);
  return result;
}

// x (N,C,H,W), w (C,K/groups,R,S): the convolution with this filter leads from the result to x
InputGradients derivative_of(const operators::ConvTranspose2d& c, const Use& use) {
  InputGradients result(use.in.size());
  const Extents64 w = extents_of(use.in[1]);
  operators::Conv2d back{c};
  back.output_pad = 0;
  // output_pad of a stride or more would make the convolution's result too large: padding that it does not need goes,
  // then rows and columns that no tap meets
  Pair more{c.output_pad.h / c.stride.h * c.stride.h, c.output_pad.w / c.stride.w * c.stride.w};
  const Pair less{std::min(more.h, c.pad.bottom), std::min(more.w, c.pad.right)};
  back.pad.bottom -= less.h, back.pad.right -= less.w;
  more.h -= less.h, more.w -= less.w;
  NetworkValue g = use.gradient;
  if (more.h > 0 || more.w > 0) g = pad(g, {0, 0, 0, 0}, {0, 0, -more.h, -more.w});
  if (use.wanted[0]) result[0] = use.net.apply(back, {g, use.in[1]});
  if (use.wanted[1]) {
    operators::FilterGradient filter{back};
    filter.filter = {w[2], w[3]};
    result[1] = use.net.apply(filter, {g, use.in[0]});
  }
  add_bias_gradient(use, result);
  return result;
}

}  // namespace unisono::autodiff
