#include "gpu/network_weights.hpp"
#include "gpu/networks.hpp"

namespace unisono::gpu {

namespace {

using Taps = std::vector<std::int64_t>;

operators::Conv3d same(const Taps& taps) {
  return {.stride = {1, 1, 1},
          .dilation = {1, 1, 1},
          .before = {taps[0] / 2, taps[1] / 2, taps[2] / 2},
          .after = {taps[0] / 2, taps[1] / 2, taps[2] / 2},
          .output_pad = {0, 0, 0}};
}

class Volumes {
 public:
  explicit Volumes(NetworkBuilder& net) : net_(net), weights_(net) {}

  NetworkValue conv(NetworkValue x, std::int64_t to, const Taps& taps, const operators::Conv3d& how) {
    const std::int64_t from = channels_of(x) / how.groups;
    const double scale = std::sqrt(3.0 / static_cast<double>(from * taps[0] * taps[1] * taps[2]));
    return net_.apply(how, {x, weights_({to, from, taps[0], taps[1], taps[2]}, scale), weights_({to}, 0.2)});
  }
  NetworkValue conv(NetworkValue x, std::int64_t to, const Taps& taps) { return conv(x, to, taps, same(taps)); }
  NetworkValue transposed(NetworkValue x, std::int64_t to, const Taps& taps, const operators::Conv3d& how) {
    const std::int64_t from = channels_of(x);
    const double scale = std::sqrt(3.0 / static_cast<double>(from * taps[0]));
    return net_.apply(how, {x, weights_({from, to, taps[0], taps[1], taps[2]}, scale), weights_({to}, 0.2)});
  }
  /// As exporters write it: of (N,C,D·H·W,1).
  NetworkValue norm(NetworkValue x, int groups) {
    const std::int64_t c = channels_of(x);
    const NetworkNormOptions options{
        .groups = groups == 0 ? 1 : groups, .scale = weights_({c}, 0.3, 1), .shift = weights_({c}, 0.2)};
    const NetworkValue image = reshape(x, {0, 0, -1, 1});
    return net_.apply(operators::ReshapeLike{},
                      {groups == 0 ? instance_norm(image, options) : group_norm(image, options), x});
  }
  NetworkValue per_channel(std::int64_t c) { return weights_({c, 1, 1, 1}, 0.3, 1); }

 private:
  NetworkBuilder& net_;
  Weights weights_;
};

}  // namespace

Network volumes() {
  NetworkBuilder net("volumes");
  Volumes v(net);
  const NetworkValue x = net.input("x", {"batch", 16, 5, 9, 7}), odd = net.input("odd", {"batch", 3, 6, 7, 11});
  const NetworkValue a = leaky_relu(v.norm(v.conv(x, 24, {3, 3, 3}), 0), 0.01);
  net.output(a, "a");
  // strides, dilation and margins of their own along each axis; a scale and shift a channel
  const operators::Conv3d strided{
      .stride = {2, 1, 2}, .dilation = {1, 2, 1}, .before = {2, 2, 0}, .after = {0, 2, 1}, .output_pad = {0, 0, 0}};
  const NetworkValue b = relu(v.conv(a, 40, {3, 3, 2}, strided) * v.per_channel(40));
  net.output(b, "b");
  // a residual, whose other side is of single voxels, strided
  operators::Conv3d skip = same({1, 1, 1});
  skip.stride = {2, 1, 2};
  const NetworkValue block = v.norm(v.conv(b, 40, {1, 3, 3}), 8);
  net.output(relu(block + v.conv(a, 40, {1, 1, 1}, skip)), "c");
  // few channels, whose filter is padded, more filters than a multiple of 8, and a head of single voxels
  const NetworkValue stem = silu(v.conv(odd, 20, {3, 3, 3}));
  net.output(v.conv(stem, 3, {1, 1, 1}), "d");
  // channels side by side, and groups, for which there is no kernel of the tensor cores
  operators::Conv3d grouped = same({3, 1, 3});
  grouped.groups = 2;
  net.output(relu(v.conv(concat({a, v.conv(x, 8, {3, 1, 1})}), 16, {3, 1, 3}, grouped)), "e");
  // transposed, with voxels between the inputs of which one row is cut off
  const operators::Conv3d between{.stride = {2, 1, 3},
                                  .dilation = {1, 1, 1},
                                  .before = {1, 1, 0},
                                  .after = {0, 1, 1},
                                  .output_pad = {0, 0, 1},
                                  .transposed = true};
  net.output(relu(v.transposed(a, 12, {3, 3, 2}, between)), "g");
  // the same voxels as a volume of other planes
  net.output(v.conv(reshape(a, {0, 0, 9, 7, 5}), 8, {3, 3, 3}), "f");
  return net.build();
}

Network volume_block(std::int64_t channels, std::int64_t stride, std::int64_t planes) {
  NetworkBuilder net("volume_block");
  Volumes v(net);
  operators::Conv3d how = same({3, 3, 3});
  how.stride = {stride, stride, stride};
  const NetworkValue x = net.input("x", {"batch", channels, planes, 12, 20});
  net.output(leaky_relu(v.norm(v.conv(x, channels, {3, 3, 3}, how), 0), 0.01), "y");
  return net.build();
}

}  // namespace unisono::gpu
