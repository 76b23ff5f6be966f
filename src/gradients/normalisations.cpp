/// Normalisations by their own statistics, batch normalisation by stored ones, softmax.

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

// The axis of channels
int channel_axis(NetworkValue x) { return x.shape().size() == 4 ? 1 : static_cast<int>(x.shape().size()) - 1; }

// A vector (C) as it broadcasts along the axis of channels
NetworkValue along_channels(NetworkValue v, NetworkValue x, int axis) {
  Extents64 shape(x.shape().size() - static_cast<std::size_t>(axis), 1);
  shape[0] = extents_of(v)[0];
  return shaped(v, shape);
}

std::vector<int> all_but(NetworkValue x, int axis) {
  std::vector<int> axes;
  for (int i = 0; i < static_cast<int>(x.shape().size()); ++i)
    if (i != axis) axes.push_back(i);
  return axes;
}

// Sums a channel, as a vector (C)
NetworkValue sums_of_channels(NetworkValue x, int axis) {
  const auto axes = all_but(x, axis);
  return axes.empty() ? x : reduced(ReduceOp::sum, x, axes, false);
}

// The means that the statistics of a normalisation are, as they broadcast over x
class Means {
 public:
  Means(const operators::Normalisation& n, NetworkValue x) : n_(n), axis_(channel_axis(x)), channels_(0) {
    channels_ = extents_of(x)[static_cast<std::size_t>(axis_)];
  }

  NetworkValue operator()(NetworkValue x) const {
    if (n_.op == Op::layer_norm || n_.op == Op::rms_norm) return reduced(ReduceOp::mean, x, {axis_});
    const NetworkValue each = reduced(ReduceOp::mean, x, {2, 3});  // (N,C,1,1)
    const bool is_each = n_.op == Op::instance_norm || n_.groups == channels_;
    return is_each ? each : n_.groups == 1 ? reduced(ReduceOp::mean, each, {1}) : of_groups(each);
  }

 private:
  // The mean of each group at each of its channels
  NetworkValue of_groups(NetworkValue each) const {
    const std::int64_t images = extents_of(each)[0];
    const NetworkValue grouped = shaped(each, {images, n_.groups, channels_ / n_.groups});
    return shaped(repeated_as(reduced(ReduceOp::mean, grouped, {2}), grouped), {images, channels_, 1, 1});
  }

  const operators::Normalisation& n_;
  int axis_;
  std::int64_t channels_;
};

}  // namespace

// With x̂ = (x − mean)·r, r = rsqrt(variance + eps) and h = g·scale: dx = r·(h − mean(h) − x̂·mean(h·x̂)). RMS
// normalisation has no mean.
InputGradients derivative_of(const operators::Normalisation& n, const Use& use) {
  InputGradients result(use.in.size());
  const NetworkValue x = use.in[0], g = use.gradient;
  const int axis = channel_axis(x);
  const Means mean(n, x);
  const NetworkValue centred = n.op == Op::rms_norm ? x : x - mean(x);
  const NetworkValue r = rsqrt(mean(square(centred)) + n.eps), unit = centred * r;
  if (use.wanted[0]) {
    const NetworkValue h = n.has_scale ? g * along_channels(use.in[1], x, axis) : g;
    const NetworkValue along = unit * mean(h * unit);
    result[0] = (n.op == Op::rms_norm ? h - along : h - mean(h) - along) * r;
  }
  std::size_t next = 1;
  if (n.has_scale) {
    if (use.wanted[next]) result[next] = sums_of_channels(g * unit, axis);
    ++next;
  }
  if (n.has_shift && use.wanted[next]) result[next] = sums_of_channels(g, axis);
  return result;
}

// x, scale, shift, mean, variance
InputGradients derivative_of(const operators::BatchNorm& b, const Use& use) {
  if (use.wanted[3] || use.wanted[4])
    refuse_derivative(use, "its stored mean and variance have no derivative; they are no parameters");
  InputGradients result(5);
  const NetworkValue x = use.in[0], g = use.gradient;
  const NetworkValue r = rsqrt(along_channels(use.in[4], x, 1) + b.eps);
  if (use.wanted[0]) result[0] = g * (along_channels(use.in[1], x, 1) * r);
  if (use.wanted[1]) result[1] = sums_of_channels(g * ((x - along_channels(use.in[3], x, 1)) * r), 1);
  if (use.wanted[2]) result[2] = sums_of_channels(g, 1);
  return result;
}

// dx = y·(g − Σ g·y)
InputGradients derivative_of(const operators::Softmax&, const Use& use) {
  const NetworkValue y = use.out;
  return {y * (use.gradient - reduced(ReduceOp::sum, use.gradient * y, {channel_axis(y)}))};
}

}  // namespace unisono::autodiff
