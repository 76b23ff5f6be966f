#include "gpu/network_weights.hpp"
#include "gpu/networks.hpp"

namespace unisono::gpu {

Network dense_layers() {
  NetworkBuilder net("dense_layers");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const auto conv = [&](NetworkValue v, std::int64_t to, std::int64_t size) {
    return conv2d(v, weights.filter(to, channels_of(v), size), weights({to}, 0.2), {.pad = size / 2});
  };
  // a scale and shift a channel ahead of ReLU, as the norms of such networks are
  const auto ahead = [&](NetworkValue v) {
    const std::int64_t c = channels_of(v);
    return relu(v * weights({c, 1, 1}, 0.3, 1) + weights({c, 1, 1}, 0.2));
  };
  std::vector<NetworkValue> all{relu(conv(x, 16, 3))};
  for (const std::int64_t growth : {8, 24, 16, 8})
    all.push_back(conv(ahead(conv(ahead(concat(all)), 32, 1)), growth, 3));
  const NetworkValue wide = concat(all);
  net.output(conv(ahead(wide), 8, 1), "a");
  const NetworkValue middle = concat({all[2], all[3]}), turned = concat({all[3], all[2]});
  net.output(conv(max_pool(middle), 8, 3), "b");
  net.output(relu(conv(turned, 16, 1) + concat({all[0]})), "c");
  net.output(conv(x, 48, 1) + concat({all[1], all[2], all[3]}) + global_average_pool(concat({all[0], all[1], all[2]})),
             "d");
  return net.build();
}

}  // namespace unisono::gpu
