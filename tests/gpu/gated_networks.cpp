// Gated units, whose two products or convolutions are one launch, and losses and pools that come out of a product's
// kernel.
#include "gpu/network_weights.hpp"
#include "gpu/networks.hpp"

namespace unisono::gpu {

namespace {

class Gated {
 public:
  explicit Gated(NetworkBuilder& net) : net_(net), weights_(net) {}

  NetworkValue matrix(std::int64_t from, std::int64_t to) {
    return weights_({from, to}, std::sqrt(3.0 / static_cast<double>(from)));
  }
  NetworkValue linear(NetworkValue x, std::int64_t to) {
    return gemm(x, matrix(x.shape().back().value(), to)) + weights_({to}, 0.2);
  }
  NetworkValue columns(NetworkValue x, std::int64_t from, std::int64_t to, std::int64_t step = 1) {
    const int axis = static_cast<int>(x.shape().size()) - 1;
    return net_.apply(operators::Slice{{from}, {to}, {step}, {axis}}, {x});
  }
  NetworkValue vector(std::vector<std::int64_t> shape) { return weights_(std::move(shape), 0.2); }
  NetworkValue filter(std::int64_t to, std::int64_t from, std::int64_t size) { return weights_.filter(to, from, size); }
  NetworkValue reduced(ReduceOp op, NetworkValue x, std::vector<int> axes = {}, bool keep = false) {
    return net_.apply(operators::Reduce{op, std::move(axes), keep}, {x});
  }

 private:
  NetworkBuilder& net_;
  Weights weights_;
};

}  // namespace

Network gated_units() {
  NetworkBuilder net("gated units");
  Gated g(net);
  const NetworkValue x = net.input("x", {"batch", "rows", 40});
  // one stacked product in halves; and interleaved, clamped and scaled
  const NetworkValue halves = g.linear(x, 144);
  net.output(gelu(g.columns(halves, 72, 144)) * g.columns(halves, 0, 72), "a");
  const NetworkValue mixed = g.linear(x, 48);
  const NetworkValue gate = clamp(g.columns(mixed, 0, 48, 2), -10, 1.5),
                     up = clamp(g.columns(mixed, 1, 48, 2), -1.5, 1.5);
  net.output(g.linear((up + 1.0) * (gate * sigmoid(gate * 1.702)), 24), "b");
  // two products, and a residual behind them
  const NetworkValue y = silu(gemm(x, g.matrix(40, 40))) * gemm(x, g.matrix(40, 40));
  net.output(y + x, "c");
  // not these: one half is an output, another activation joins them, odd columns
  const NetworkValue shown = g.linear(x, 32);
  net.output(sigmoid(g.columns(shown, 0, 16)), "d");
  net.output(g.columns(shown, 16, 32) * g.columns(shown, 0, 16), "e");
  net.output(silu(gemm(x, g.matrix(40, 16))) + gemm(x, g.matrix(40, 16)), "f");
  const NetworkValue odd = g.linear(x, 24);
  net.output(tanh(g.columns(odd, 0, 12)) * g.columns(odd, 12, 24), "g");
  return net.build();
}

Network gated_convolutions() {
  NetworkBuilder net("gated convolutions");
  Gated g(net);
  const NetworkValue x = net.input("x", {"batch", 16, 13, 18});
  const auto half = [&](NetworkValue v, std::int64_t which) {
    const std::int64_t k = v.shape()[1].value() / 2;
    return net.apply(operators::Slice{{which * k}, {which * k + k}, {1}, {1}}, {v});
  };
  const auto conv = [&](NetworkValue v, std::int64_t to, ConvAttributes how = {.pad = 1}, std::int64_t size = 3) {
    return conv2d(v, g.filter(to, v.shape()[1].value(), size), g.vector({to}), how);
  };
  // halves, strided, then normalised; two convolutions with factors, a residual behind; of two images, pooled
  const NetworkValue halves = conv(x, 48, {.stride = 2, .pad = 1});
  net.output(silu(group_norm(half(halves, 0) * sigmoid(half(halves, 1)),
                             {.groups = 4, .scale = g.vector({24}), .shift = g.vector({24})})),
             "a");
  const NetworkValue two = tanh(conv(x, 16) * g.vector({16, 1, 1})) * sigmoid(conv(x, 16));
  net.output(two + x, "b");
  net.output(max_pool(conv(relu(two), 8) * silu(conv(relu(two), 8)), {.kernel = 2, .stride = 2}), "c");
  // rows of pixels, dilated, as WaveNet has them; the skip and the residual
  const NetworkValue row = net.input("row", {"batch", 16, 40});
  const NetworkValue image = net.apply(operators::Reshape{{0, 16, 1, 40}}, {row});
  const NetworkValue both =
      net.apply(operators::Reshape{{0, 48, 40}},
                {conv2d(image, g.vector({48, 16, 1, 2}), g.vector({48}), {.pad = {0, 4, 0, 0}, .dilation = 4})});
  const NetworkValue gate = tanh(half(both, 0)) * sigmoid(half(both, 1));
  const NetworkValue lifted = net.apply(operators::Reshape{{0, 24, 1, 40}}, {gate});
  net.output(net.apply(operators::Reshape{{0, 16, 40}}, {conv(lifted, 16, {}, 1)}) + row, "d");
  // few pixels of many channels: two launches
  const NetworkValue deep = net.input("deep", {"batch", 2048, 4, 4});
  net.output(conv(deep, 16) * sigmoid(conv(deep, 16)), "e");
  // not these: a half is read, groups, few channels, odd ones
  const NetworkValue shown = conv(x, 32);
  net.output(relu(half(shown, 0)), "f");
  net.output(half(shown, 0) * sigmoid(half(shown, 1)), "g");
  const NetworkValue grouped = conv2d(x, g.vector({32, 8, 3, 3}), {.pad = 1, .groups = 2});
  net.output(half(grouped, 0) * sigmoid(half(grouped, 1)), "h");
  const NetworkValue odd = conv(x, 24);
  net.output(half(odd, 0) * sigmoid(half(odd, 1)), "i");
  return net.build();
}

Network losses() {
  NetworkBuilder net("losses");
  Gated g(net);
  const NetworkValue x = net.input("x", {"batch", 40}), t = net.input("t", {"batch", 24}),
                     s = net.input("s", {"batch", 1});
  const NetworkValue z = g.linear(x, 24), p = sigmoid(z);
  net.output(-g.reduced(ReduceOp::mean, t * log(p) + (1.0 - t) * log(1.0 - p)), "mean");
  // one column, which a kernel pads
  const NetworkValue one = g.linear(x, 1);
  const NetworkValue loss = relu(one) - one * s + log(1.0 + exp(-elementwise(Op::abs, {one})));
  net.output(reshape(g.reduced(ReduceOp::sum, loss, {0, 1}, true), {1}) / 16.0, "sum");
  net.output(g.reduced(ReduceOp::mean, g.linear(x, 12) * 3.0), "of odd columns");
  // beside the values, and of a maximum
  const NetworkValue values = tanh(g.linear(x, 16));
  net.output(values, "values");
  net.output(g.reduced(ReduceOp::max, values), "largest");
  return net.build();
}

Network squeeze_excitations() {
  NetworkBuilder net("squeeze and excitation");
  Gated g(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"}), z = net.input("z", {"batch", 2100, 3, 3});
  const auto conv = [&](NetworkValue v, std::int64_t to) {
    return conv2d(v, g.filter(to, v.shape()[1].value(), 1)) + g.vector({to, 1, 1});
  };
  const auto depthwise = [&](NetworkValue v) {
    const std::int64_t c = v.shape()[1].value();
    return conv2d(v, g.filter(c, 1, 3), {.pad = 1, .groups = c});
  };
  const auto gate = [&](NetworkValue pooled, std::int64_t hidden) {
    return sigmoid(conv(silu(conv(pooled, hidden)), pooled.shape()[1].value()));
  };
  // a pool in the launch, of odd channels; a pool by the convolution ahead; layers of a matrix
  const NetworkValue odd = relu(depthwise(relu(conv(x, 37))));
  net.output(conv(odd * gate(g.reduced(ReduceOp::mean, odd, {2, 3}, true), 10), 24), "a");
  const NetworkValue even = silu(conv2d(x, g.filter(48, 16, 3), {.pad = 1}));
  net.output(conv(even * gate(global_average_pool(even), 8), 24), "b");
  const NetworkValue own = depthwise(conv(x, 40));
  const NetworkValue row = sigmoid(g.linear(relu(g.linear(flatten(global_average_pool(own), 1), 6)), 40));
  net.output(conv(own * net.apply(operators::ReshapeLike{}, {row, global_average_pool(own)}), 16), "c");
  net.output(gate(global_average_pool(z), 5), "d");
  // a pool that is an output; not this: the hidden layer is one
  const NetworkValue shown = global_average_pool(relu(x)), hidden = relu(conv(global_average_pool(sigmoid(x)), 24));
  net.output(shown, "e");
  net.output(gate(shown, 8), "f");
  net.output(hidden, "g");
  net.output(conv(hidden, 16), "h");
  return net.build();
}

Network pooled_convolutions() {
  NetworkBuilder net("pooled convolutions");
  Gated g(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const NetworkValue h = silu(conv2d(x, g.filter(24, 16, 3), {.pad = 1}));
  const NetworkValue gate = sigmoid(conv2d(global_average_pool(h), g.filter(24, 24, 1)));
  const NetworkValue y = relu(conv2d(h * gate, g.filter(40, 24, 1)));
  net.output(flatten(global_average_pool(y), 1), "y");
  net.output(g.reduced(ReduceOp::sum, conv2d(x, g.filter(16, 16, 3), {.pad = 1}), {2, 3}, true), "sums");
  return net.build();
}

}  // namespace unisono::gpu
