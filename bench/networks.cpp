#include "networks.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

// Weights as PyTorch initialises them: uniform, by the number of inputs of an output
class Weights {
 public:
  explicit Weights(NetworkBuilder& net) : net_(net) {}
  NetworkValue filter(std::int64_t to, std::int64_t from, std::int64_t size) {
    return uniform({to, from, size, size}, from * size * size);
  }
  NetworkValue matrix(std::int64_t to, std::int64_t from) { return uniform({to, from}, from); }
  NetworkValue bias(std::int64_t to, std::int64_t from) { return uniform({to}, from); }
  NetworkValue filled(std::int64_t count, float value) {
    return net_.constant(fmt::format("w{}", ++count_), {count},
                         std::vector<float>(static_cast<std::size_t>(count), value));
  }

 private:
  NetworkValue uniform(const std::vector<std::int64_t>& shape, std::int64_t fan_in) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    std::vector<float> x(static_cast<std::size_t>(element_count(shape)));
    for (float& v : x) v = static_cast<float>(bound * (2 * next() - 1));
    return net_.constant(fmt::format("w{}", ++count_), Shape(shape.begin(), shape.end()), std::move(x));
  }
  double next() {  // SplitMix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  NetworkBuilder& net_;
  std::uint64_t state_ = 1;
  int count_ = 0;
};

std::int64_t channels(NetworkValue x) { return x.shape()[1].value(); }

NetworkValue norm(Weights& weights, NetworkValue x, int groups) {
  const std::int64_t c = channels(x);
  return group_norm(x, {.groups = groups, .scale = weights.filled(c, 1), .shift = weights.filled(c, 0)});
}

NetworkValue convolution(Weights& weights, NetworkValue x, std::int64_t to, std::int64_t size,
                         std::int64_t stride = 1) {
  const std::int64_t c = channels(x);
  return conv2d(x, weights.filter(to, c, size), weights.bias(to, c * size * size), {.stride = stride, .pad = size / 2});
}

}  // namespace

Network baseline_unet(std::int64_t inputs, const std::vector<std::int64_t>& widths, std::int64_t classes) {
  NetworkBuilder net("baseline_unet");
  Weights weights(net);
  const auto block = [&](NetworkValue x, std::int64_t to) {
    const auto groups = static_cast<int>(std::min<std::int64_t>(32, to / 4));
    return mish(norm(weights, conv2d(x, weights.filter(to, channels(x), 3), {.pad = 1}), groups));
  };
  const auto level = [&](NetworkValue x, std::int64_t to) { return block(block(x, to), to); };
  NetworkValue x = net.input("image", {"batch", inputs, "height", "width"});
  std::vector<NetworkValue> skips;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    x = level(i == 0 ? x : max_pool(x), widths[i]);
    skips.push_back(x);
  }
  for (std::size_t i = widths.size() - 1; i-- > 0;)
    x = level(concat({skips[i], convolution(weights, upsample(x), widths[i], 1)}), widths[i]);
  net.output(convolution(weights, x, classes, 1), "heatmaps");
  return net.build();
}

Network diffusion_stack(const std::vector<std::int64_t>& widths) {
  NetworkBuilder net("diffusion_stack");
  Weights weights(net);
  const std::int64_t embedding = 4 * widths[0];
  NetworkValue x = net.input("x", {"batch", widths[0], "height", "width"});
  const NetworkValue time = silu(net.input("time", {"batch", embedding}));
  const auto block = [&](NetworkValue h, std::int64_t to) {
    NetworkValue y = convolution(weights, silu(norm(weights, h, 32)), to, 3);
    const NetworkValue added =
        gemm(time, weights.matrix(to, embedding), {.transpose_b = true, .bias = weights.bias(to, embedding)});
    y = y + reshape(added, {0, 0, 1, 1});
    y = convolution(weights, silu(norm(weights, y, 32)), to, 3);
    return (channels(h) == to ? h : convolution(weights, h, to, 1)) + y;
  };
  std::vector<NetworkValue> skips;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    x = block(block(x, widths[i]), widths[i]);
    skips.push_back(x);
    if (i + 1 < widths.size()) x = convolution(weights, x, widths[i], 3, 2);
  }
  x = block(x, widths.back());
  for (std::size_t i = widths.size() - 1; i-- > 0;) {
    x = convolution(weights, upsample(x), channels(x), 3);
    x = block(concat({x, skips[i]}), widths[i]);
  }
  net.output(convolution(weights, silu(norm(weights, x, 32)), widths[0], 3), "y");
  return net.build();
}

Network NetworkCase::make() const { return network == "unet" ? baseline_unet() : diffusion_stack(); }

std::map<std::string, std::vector<std::int64_t>> NetworkCase::shapes() const {
  const std::int64_t batch = values.at("batch"), size = values.at("size");
  if (network == "unet") return {{"image", {batch, 8, size, size}}};
  return {{"x", {batch, 320, size, size}}, {"time", {batch, 1280}}};
}

std::vector<NetworkCase> parse_network_cases(const std::string& text, const std::string& file) {
  std::vector<NetworkCase> cases;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const auto refuse = [&](const std::string& why) {
      throw UserError(fmt::format("{}, line {}: '{}': {}", file, number, line, why));
    };
    std::istringstream words(line);
    NetworkCase c;
    words >> c.name >> c.network;
    if (c.network != "unet" && c.network != "diffusion") refuse("expected NAME, then unet or diffusion");
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      const std::string key = word.substr(0, equals);
      const bool digits = equals != word.npos && equals + 1 < word.size() &&
                          word.find_first_not_of("0123456789", equals + 1) == word.npos && word.size() - equals < 9;
      if (!digits || (key != "batch" && key != "size")) refuse("expected batch=N and size=N");
      c.values[key] = std::stoll(word.substr(equals + 1));
    }
    if (c.values.size() != 2) refuse("expected batch=N and size=N");
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::bench
