// Trains a small U-Net from the network builder: where is a disc in noise? Prints the loss as it falls, writes a
// checkpoint, and goes on from it. usage: train_unet [cuda]
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "unisono/unisono.hpp"

namespace {

using unisono::concat;
using unisono::NetworkBuilder;
using unisono::NetworkValue;

constexpr std::int64_t batch = 8, size = 24;

class Builder {
 public:
  NetworkValue conv(NetworkValue x, const std::string& name, std::int64_t from, std::int64_t to, std::int64_t taps) {
    std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(from * taps * taps)));
    std::vector<float> weights(static_cast<std::size_t>(to * from * taps * taps));
    for (float& w : weights) w = normal(random_);
    const NetworkValue filter = net.constant(name + ".weight", {to, from, taps, taps}, std::move(weights));
    return conv2d(x, filter, vector(name + ".bias", to, 0), {.pad = taps / 2});
  }
  // conv → group norm → SiLU
  NetworkValue block(NetworkValue x, const std::string& name, std::int64_t from, std::int64_t to) {
    return silu(
        group_norm(conv(x, name, from, to, 3),
                   {.groups = 4, .scale = vector(name + ".scale", to, 1), .shift = vector(name + ".shift", to, 0)}));
  }

  NetworkBuilder net{"unet"};

 private:
  NetworkValue vector(const std::string& name, std::int64_t extent, float value) {
    return net.constant(name, {extent}, std::vector<float>(static_cast<std::size_t>(extent), value));
  }
  std::mt19937 random_{1};
};

unisono::Network unet() {
  Builder b;
  const NetworkValue image = b.net.input("image", {"batch", 1, size, size});
  const NetworkValue top = b.block(image, "top", 1, 8);
  const NetworkValue low = b.block(max_pool(top), "low", 8, 16);
  const NetworkValue joined = b.block(concat({upsample(low), top}), "up", 24, 8);
  b.net.output(b.conv(joined, "head", 8, 1, 1), "logits");
  return b.net.build();
}

// Discs in noise, (batch,1,size,size), and where they are
void draw(std::mt19937& random, std::vector<float>& images, std::vector<float>& targets) {
  std::normal_distribution<float> noise(0, 0.3f);
  std::uniform_real_distribution<float> place(4, size - 4), radius(2, 5);
  images.clear(), targets.clear();
  for (std::int64_t i = 0; i < batch; ++i) {
    const float x = place(random), y = place(random), r = radius(random);
    for (std::int64_t row = 0; row < size; ++row)
      for (std::int64_t column = 0; column < size; ++column) {
        const bool inside = std::hypot(static_cast<float>(column) - x, static_cast<float>(row) - y) < r;
        images.push_back((inside ? 0.5f : 0.0f) + noise(random));
        targets.push_back(inside ? 1.0f : 0.0f);
      }
  }
}

}  // namespace

int main(int count, char** arguments) {
  const bool on_gpu = count > 1 && std::string(arguments[1]) == "cuda";
  const unisono::TrainerOptions options{.extents = {{"batch", batch}},
                                        .optimiser = {.clip_norm = 1},
                                        .device = on_gpu ? unisono::Device::cuda : unisono::Device::cpu};
  unisono::Trainer trainer(unet(), unisono::binary_cross_entropy(), options);
  std::mt19937 random(2);
  std::vector<float> images, targets;
  const auto begin_step = [&](unisono::Trainer& t, double rate) {
    draw(random, images, targets);
    const std::vector<std::int64_t> shape{batch, 1, size, size};
    return t.begin_step({{"image", unisono::view(images, shape)}, {"target", unisono::view(targets, shape)}}, rate);
  };
  constexpr int steps = 120;
  double first = 0, loss = 0;
  const auto report = [&](int number, double value) {
    loss = value;
    if (number == 1) first = loss;
    if (number % 20 == 0) std::printf("step %d: loss %.4f\n", number, loss);
  };
  // on a GPU a step runs while the next images are drawn
  for (int i = 1; i <= steps; ++i)
    if (const auto before = begin_step(trainer, 0.01 * (0.5 + 0.5 * std::cos(3.14159 * i / steps))))
      report(i - 1, before->loss);
  report(steps, trainer.finish_step()->loss);

  // a checkpoint is all that another trainer needs to go on
  unisono::save_checkpoint("unet_checkpoint.safetensors", trainer.state());
  unisono::Trainer again(unet(), unisono::binary_cross_entropy(), options);
  again.set_state(unisono::load_checkpoint("unet_checkpoint.safetensors").state);
  begin_step(again, 0.001);
  std::printf("one step more: loss %.4f\n", again.finish_step()->loss);
  const unisono::Network trained = again.network();  // for unisono::compile
  std::printf("%zu tensors, %zu parameters\n", trained.tensors.size(), again.parameters().size());
  return loss < first / 4 ? 0 : 1;
}
