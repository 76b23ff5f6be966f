/// Convolutions of images, and their transposes: each is the other's gradient with respect to the image.

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

// Bias (K) of a result (N,K,P,Q)
void add_bias_gradient(const Use& use, InputGradients& result) {
  if (use.in.size() > 2 && use.wanted[2]) result[2] = reduced(ReduceOp::sum, use.gradient, {0, 2, 3}, false);
}

}  // namespace

// x (N,C,H,W), w (K,C/groups,R,S)
InputGradients derivative_of(const operators::Conv2d& c, const Use& use) {
  InputGradients result(use.in.size());
  const Extents64 x = extents_of(use.in[0]), w = extents_of(use.in[1]);
  if (use.wanted[0]) {
    operators::ConvTranspose2d back{c};
    back.output_pad = {left_over(x[2] + c.pad.top + c.pad.bottom, w[2], c.dilation.h, c.stride.h),
                       left_over(x[3] + c.pad.left + c.pad.right, w[3], c.dilation.w, c.stride.w)};
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
  const Surplus rows = surplus_of(c.output_pad.h, c.stride.h, c.pad.bottom),
                columns = surplus_of(c.output_pad.w, c.stride.w, c.pad.right);
  back.pad.bottom -= rows.padding, back.pad.right -= columns.padding;
  NetworkValue g = use.gradient;
  if (rows.elements > 0 || columns.elements > 0) g = pad(g, {0, 0, 0, 0}, {0, 0, -rows.elements, -columns.elements});
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
