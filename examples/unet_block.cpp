// A block of a U-Net written in C++, with weights from a safetensors file: two scales, GroupNorm and SiLU behind every
// convolution, and a skip. The file also holds an image and the result that NumPy computed in float64.
//
//   example_unet_block unet_block.safetensors

#include <unisono/unisono.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

/// Convolution, GroupNorm and SiLU with the weights "NAME.conv.*" and "NAME.norm.*": one kernel.
unisono::NetworkValue block(unisono::NetworkBuilder& net, const std::string& name, unisono::NetworkValue x,
                            std::int64_t channels) {
  const unisono::Dim filters(channels);
  const auto h = conv2d(x, net.weight(name + ".conv.weight", {filters, x.shape()[1], 3, 3}),
                        net.weight(name + ".conv.bias", {filters}), {.pad = 1});
  return silu(group_norm(h, {.groups = 4,
                             .scale = net.weight(name + ".norm.weight", {filters}),
                             .shift = net.weight(name + ".norm.bias", {filters})}));
}

/// Elements of an f32 tensor of the file.
std::vector<float> floats(const unisono::Safetensors& file, const std::string& name) {
  const unisono::SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr || entry->dtype != unisono::DType::f32) throw unisono::UserError("no f32 tensor '" + name + "'");
  const std::vector<std::byte> bytes = file.read(*entry);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

int run(const std::string& path) {
  const unisono::Safetensors file = unisono::open_safetensors(path);
  unisono::NetworkBuilder net("unet_block");
  net.use_weights(file);
  const auto image = net.input("image", {"batch", 3, "height", "width"});
  const auto skip = block(net, "down", image, 8);
  const auto low = block(net, "middle", max_pool(skip), 16);
  const auto up = block(net, "up", unisono::concat({upsample(low), skip}), 8);
  net.output(conv2d(up, net.weight("head.weight", {2, 8, 1, 1}), net.weight("head.bias", {2})), "result");
  for (const std::string& name : net.unused_weights()) std::printf("not used: %s\n", name.c_str());

  const unisono::NetworkExecutable network = unisono::compile(net.build());
  std::printf("%s", unisono::to_string(network.report()).c_str());

  const std::vector<float> pixels = floats(file, "example.image"), expected = floats(file, "example.result");
  std::vector<float> result(expected.size(), NAN);
  network.run({{"image", {pixels.data(), unisono::DType::f32, {1, 3, 8, 8}}}},
              {{"result", {result.data(), unisono::DType::f32, {1, 2, 8, 8}}}});
  double worst = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double error = std::abs(static_cast<double>(result[i]) - static_cast<double>(expected[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  std::printf("largest difference from NumPy's result: %.1e\n", worst);
  return worst < 1e-5 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_unet_block FILE.safetensors\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const unisono::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
