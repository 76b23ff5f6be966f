#include "gpu/networks.hpp"

#include "gpu/network_weights.hpp"

namespace unisono::gpu {

Network heatmap_unet(const UNetShape& s) {
  NetworkBuilder net("heatmap_unet");
  Weights weights(net);
  const auto block = [&](NetworkValue x, std::int64_t to) {
    const NetworkValue y = conv2d(x, weights.filter(to, channels_of(x), 3), weights({to}, 0.2), {.pad = 1});
    return mish(group_norm(y, {.groups = s.groups, .scale = weights({to}, 0.3, 1), .shift = weights({to}, 0.3)}));
  };
  const auto level = [&](NetworkValue x, std::int64_t to) { return block(block(x, to), to); };
  NetworkValue x = net.input("image", {"batch", s.inputs, "height", "width"});
  std::vector<NetworkValue> skips;
  for (std::size_t i = 0; i + 1 < s.channels.size(); ++i) {
    skips.push_back(level(x, s.channels[i]));
    x = max_pool(skips.back());
  }
  x = level(x, s.channels.back());
  for (std::size_t i = s.channels.size() - 1; i-- > 0;) x = level(concat({upsample(x), skips[i]}), s.channels[i]);
  net.output(sigmoid(conv2d(x, weights.filter(s.classes, s.channels[0], 1), weights({s.classes}))), "heatmaps");
  return net.build();
}

Network residual_block(std::int64_t c, int groups, std::int64_t width_of_time) {
  NetworkBuilder net("residual_block");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", c, "height", "width"});
  const NetworkValue time = net.input("time", {"batch", width_of_time});
  const auto norm = [&](NetworkValue v) {
    return silu(group_norm(v, {.groups = groups, .scale = weights({c}, 0.3, 1), .shift = weights({c}, 0.3)}));
  };
  const auto conv = [&](NetworkValue v) { return conv2d(v, weights.filter(c, c, 3), weights({c}, 0.2), {.pad = 1}); };
  const NetworkValue added =
      gemm(silu(time), weights({c, width_of_time}, 0.3), {.transpose_b = true, .bias = weights({c}, 0.2)});
  const NetworkValue h = conv(norm(x)) + reshape(added, {0, 0, 1, 1});
  net.output(x + conv(norm(h)), "y");
  return net.build();
}

Network oddities() {
  NetworkBuilder net("oddities");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 8, 8, 12});
  const NetworkValue deep = relu(conv2d(x, weights({8, 1, 3, 3}, 0.6), {.pad = 1, .groups = 8}));  // depthwise
  const NetworkValue odd = silu(conv2d(deep, weights.filter(6, 8, 3), {.stride = 2, .pad = 1}));   // (6, 4, 6)
  const NetworkValue grown = conv_transpose2d(odd, weights({6, 5, 2, 2}, 0.5), {.stride = 2});     // (5, 8, 12)
  const NetworkValue pooled = average_pool(grown, {.kernel = 3, .stride = 1, .pad = 1});
  const NetworkValue joined = concat({pooled, x, max_pool(grown, {.kernel = 3, .stride = 1, .pad = 1})});  // 18
  const NetworkValue padded = pad(joined, {0, 0, 1, 0}, {0, 0, -1, 2}, 0.25);  // (18, 8, 14)
  const NetworkValue plane = padded + weights({8, 14});
  const NetworkValue normed = layer_norm(plane, {.scale = weights({18}, 0.3, 1), .eps = 0.1});
  net.output(softmax(conv2d(normed, weights.filter(7, 18, 1))), "y");
  const NetworkValue wide = resize(x, {.mode = ResizeMode::linear, .scale_h = 1.5, .scale_w = 2});
  net.output(tanh(transpose(wide, {0, 1, 3, 2})) * 2.0, "z");
  return net.build();
}

Network inverted_bottlenecks() {
  NetworkBuilder net("inverted_bottlenecks");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const auto conv = [&](NetworkValue v, std::int64_t to) {
    return conv2d(v, weights.filter(to, channels_of(v), 1), weights({to}, 0.2));
  };
  const auto depthwise = [&](NetworkValue v, std::int64_t size, ConvAttributes a = {}, std::int64_t multiplier = 1) {
    const std::int64_t c = channels_of(v);
    a.groups = c;
    const NetworkValue bias = weights({c * multiplier}, 0.2);
    return conv2d(v, weights({c * multiplier, 1, size, size}, 1.7 / static_cast<double>(size)), bias, a);
  };
  const NetworkValue small = conv(hardswish(depthwise(hardswish(conv(x, 72)), 3, {.stride = 2, .pad = 1})), 24);
  const NetworkValue wide = relu(depthwise(relu(conv(small, 96)), 5, {.pad = 2}));
  const NetworkValue share = sigmoid(conv(relu(conv(global_average_pool(wide), 24)), 96));
  net.output(small + conv(wide * share, 24), "a");
  net.output(concat({silu(depthwise(small, 3, {.pad = 2, .dilation = 2})), depthwise(small, 3, {.pad = 1}, 2)}), "b");
  net.output(group_norm(depthwise(small, 3, {.pad = 1}), {.groups = 4, .scale = weights({24}, 0.3, 1)}), "c");
  const NetworkValue odd = relu(depthwise(relu(conv(x, 37)), 3, {.pad = 1}));
  net.output(concat({conv(odd, 8), conv(relu(depthwise(upsample(small), 3, {.pad = 1})), 8)}), "d");
  return net.build();
}

Network grouped_bottlenecks() {
  NetworkBuilder net("grouped_bottlenecks");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const auto conv = [&](NetworkValue v, std::int64_t to) {
    return conv2d(v, weights.filter(to, channels_of(v), 1), weights({to}, 0.2));
  };
  const auto grouped = [&](NetworkValue v, std::int64_t to, std::int64_t groups, std::int64_t stride = 1) {
    const NetworkValue filter = weights.filter(to, channels_of(v) / groups, 3);
    return conv2d(v, filter, weights({to}, 0.2), {.stride = stride, .pad = 1, .groups = groups});
  };
  const NetworkValue residual = relu(conv(x, 64));
  const NetworkValue wide = relu(residual + conv(relu(grouped(conv(residual, 128), 128, 32)), 64));
  net.output(conv(relu(grouped(wide, 96, 4, 2)), 24), "a");  // 16 channels and 24 filters a group
  const NetworkValue share = sigmoid(conv(global_average_pool(wide), 64));
  net.output(group_norm(grouped(wide * share, 64, 2), {.groups = 8, .scale = weights({64}, 0.3, 1)}), "b");
  net.output(max_pool(silu(grouped(wide, 128, 8))), "c");
  net.output(grouped(conv(x, 60), 20, 5), "d");  // neither is a multiple of 8
  return net.build();
}

Network exported_normalisations() {
  NetworkBuilder net("exported_normalisations");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const NetworkValue y = group_norm(conv2d(x, weights.filter(32, 16, 3), {.pad = 1}), {.groups = 8});
  net.output(relu(y * weights({32, 1, 1}, 0.3, 1) + weights({32, 1, 1}, 0.3)), "y");
  const NetworkValue pixels = net.input("pixels", {1, 40, 1, 1});
  const NetworkValue rows = layer_norm(reshape(transpose(pixels, {0, 2, 3, 1}), {1, 40}), {.eps = 1e-3});
  const NetworkValue scaled = reshape(rows, {1, 1, 1, 40}) * weights({40}, 0.3, 1) + weights({40}, 0.3);
  net.output(transpose(scaled, {0, 3, 1, 2}), "z");
  return net.build();
}

Network resampling() {
  NetworkBuilder net("resampling");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const auto conv = [&](NetworkValue v, std::int64_t to, std::int64_t size, std::int64_t stride = 1) {
    return conv2d(v, weights.filter(to, channels_of(v), size), weights({to}, 0.2), {.stride = stride, .pad = size / 2});
  };
  const NetworkValue skip = mish(group_norm(conv(x, 32, 3), {.groups = 4, .scale = weights({32}, 0.3, 1)}));
  const NetworkValue pooled = max_pool(skip);  // of a slice; odd lines end
  const NetworkValue deep = silu(conv(pooled, 24, 3));
  net.output(max_pool(deep), "small");
  const NetworkValue both = relu(conv(deep, 16, 1));
  net.output(upsample(max_pool(both)), "y");
  const NetworkValue strided = conv(skip, 8, 3, 2);  // no halo tiles
  net.output(conv(concat({skip, upsample(deep), upsample(strided)}), 8, 1), "z");
  return net.build();
}

Network classifier(std::int64_t channels, std::int64_t classes) {
  NetworkBuilder net("classifier");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", channels, "height", "width"});
  const NetworkValue features = flatten(global_average_pool(x));
  const NetworkValue hidden =
      gelu(gemm(layer_norm(features, {.scale = weights({channels}, 0.3, 1), .eps = 1e-3}),
                weights({channels, 2 * channels}, 0.4), {.bias = weights({2 * channels}, 0.2)}));
  net.output(softmax(gemm(hidden, weights({classes, 2 * channels}, 0.4), {.transpose_b = true})), "p");
  return net.build();
}

Network normalisations() {
  NetworkBuilder net("normalisations");
  Weights weights(net);
  const NetworkValue wide = net.input("wide", {"batch", 2100, "height", "width"});
  const NetworkValue image = net.input("image", {"batch", 37, "rows", "columns"});
  net.output(silu(group_norm(wide, {.groups = 3, .scale = weights({2100}, 0.3, 1), .shift = weights({2100}, 0.2)})),
             "a");
  const NetworkValue joined =
      concat({image, max_pool(image, {.kernel = 3, .stride = 1, .pad = 1}), image * 2.0 + 30.0});
  net.output(relu(group_norm(joined, {.groups = 3, .scale = weights({111}, 0.3, 1)})) + 0.5, "b");
  net.output(instance_norm(image, {.eps = 1e-3}), "c");
  return net.build();
}

Network stems() {
  NetworkBuilder net("stems");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 3, "height", "width"});
  const NetworkValue z = net.input("z", {"batch", 8, "rows", "columns"});
  net.output(relu(conv2d(x, weights.filter(16, 3, 7), weights({16}, 0.2), {.stride = 2, .pad = 3})), "a");
  const NetworkValue b = silu(conv2d(z, weights({24, 8, 3, 5}, 0.2), {.pad = {1, 4, 2, 3}, .dilation = {1, 2}}));
  net.output(b, "b");
  net.output(sigmoid(conv2d(b, weights.filter(17, 24, 1))), "c");
  net.output(max_pool(net.input("odd", {"batch", 5, "lines", "pixels"}), {.kernel = 3, .stride = 1, .pad = 1}), "d");
  return net.build();
}

Network upsampled_images() {
  NetworkBuilder net("upsampled_images");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const NetworkValue time = net.input("time", {"batch", 24});
  const NetworkValue r = net.input("r", {"batch", 24, "rows", "columns"});
  const NetworkValue added =
      gemm(silu(time), weights({32, 24}, 0.3), {.transpose_b = true, .bias = weights({32}, 0.2)});
  const NetworkValue h =
      conv2d(upsample(x), weights.filter(32, 16, 3), weights({32}, 0.2), {.pad = 1}) + reshape(added, {0, 0, 1, 1});
  const NetworkValue a =
      silu(group_norm(h, {.groups = 4, .scale = weights({32}, 0.3, 1), .shift = weights({32}, 0.3)}));
  net.output(a, "a");
  net.output(relu(conv2d(h, weights.filter(8, 32, 1))), "b");
  net.output(r + silu(conv_transpose2d(x, weights({16, 24, 4, 4}, 0.2), weights({24}), {.stride = 2, .pad = 1})), "c");
  const NetworkValue grown =
      relu(conv_transpose2d(x, weights({16, 24, 3, 3}, 0.2), {.stride = 2, .pad = 1, .output_pad = 1}));
  net.output(conv2d(concat({grown, r}), weights.filter(16, 48, 1)), "d");
  net.output(
      conv2d(silu(conv2d(upsample(a), weights({16, 32, 5, 3}, 0.1), {.pad = {2, 1, 1, 0}})), weights.filter(8, 16, 1)),
      "e");
  net.output(layer_norm(conv_transpose2d(relu(conv2d(upsample(x), weights.filter(16, 16, 1))),
                                         weights({16, 40, 2, 2}, 0.2), {.stride = 2})),
             "f");
  return net.build();
}

Network embeddings() {
  NetworkBuilder net("embeddings");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const NetworkValue time = silu(net.input("time", {"batch", 24}));
  const auto layer = [&](std::int64_t to) {
    return gemm(time, weights({to, 24}, 0.3), {.transpose_b = true, .bias = weights({to}, 0.2)});
  };
  const auto pixel = [](NetworkValue v) { return reshape(v, {0, 0, 1, 1}); };
  const auto columns = [&](NetworkValue v, std::int64_t begin, std::int64_t end) {
    return net.apply(operators::Slice{{begin}, {end}, {1}, {1}}, {v});
  };
  const auto conv = [&](NetworkValue v, std::int64_t to, std::int64_t size) {
    return conv2d(v, weights.filter(to, channels_of(v), size), weights({to}, 0.2), {.pad = size / 2});
  };
  const auto norm = [&](NetworkValue v, int groups) {
    const std::int64_t c = channels_of(v);
    return group_norm(v, {.groups = groups, .scale = weights({c}, 0.3, 1), .shift = weights({c}, 0.3)});
  };
  NetworkValue h = silu(norm(conv(x, 32, 3) + pixel(layer(32)), 4));
  const NetworkValue both = layer(64);
  const NetworkValue scale = columns(both, 0, 32), shift = columns(both, 32, 64);
  h = norm(conv(h, 32, 3), 8) * (pixel(scale) + 1.0) + pixel(shift);
  net.output(conv(h, 16, 1) + x, "a");
  net.output(silu(norm(conv(upsample(x), 24, 3) + pixel(layer(24)), 3)), "b");
  const NetworkValue odd = layer(12);  // no multiple of 8
  net.output(relu(conv(x, 12, 1) + pixel(odd)), "c");
  std::vector<NetworkValue> heads;
  for (int i = 0; i < 2; ++i)
    heads.push_back(gemm(gelu(layer(40)) * weights({40}, 0.3, 1), weights({40, 8}, 0.3), {.bias = weights({8})}));
  net.output(heads[0] + heads[1], "d");
  return net.build();
}

Network joined_normalisations() {
  NetworkBuilder net("joined_normalisations");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const auto conv = [&](NetworkValue v, std::int64_t to, std::int64_t size, double offset = 0) {
    return conv2d(v, weights.filter(to, channels_of(v), size), weights({to}, 0.2, offset), {.pad = size / 2});
  };
  const auto norm = [&](NetworkValue v, int groups) {
    const std::int64_t c = channels_of(v);
    return group_norm(v, {.groups = groups, .scale = weights({c}, 0.3, 1), .shift = weights({c}, 0.3)});
  };
  // groups of 16 channels over 40 and 24: the third straddles; one producer by phases, the other with a residual
  const NetworkValue small = conv(max_pool(x), 16, 3);
  const NetworkValue up = conv(upsample(small), 40, 3), skip = conv(x, 24, 3) + tanh(conv(x, 24, 1));
  net.output(conv(silu(norm(concat({up, skip}), 4)), 8, 3), "a");
  // three parts, one of which is stored upsampled only; a channel a group; a common offset
  const NetworkValue parts = concat({conv(x, 24, 1, 4), upsample(conv(max_pool(x), 16, 1, 4)), relu(conv(x, 8, 3, 4))});
  net.output(conv(instance_norm(parts, {.eps = 1e-3}), 8, 1), "b");
  net.output(relu(norm(parts, 2)), "c");
  // no statistics: an input; a tensor that the same launch normalises, which makes the other producer store none
  net.output(norm(concat({conv(x, 16, 1), x}), 4), "d");
  net.output(norm(concat({conv(x, 16, 3), silu(norm(conv(x, 16, 1), 4))}), 4), "e");
  return net.build();
}

Network upsampled_image(std::int64_t channels) {
  NetworkBuilder net("upsampled_image");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", channels, "height", "width"});
  net.output(silu(conv2d(upsample(x), weights.filter(channels, channels, 3), weights({channels}, 0.2), {.pad = 1})),
             "y");
  return net.build();
}

}  // namespace unisono::gpu
