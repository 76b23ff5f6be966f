// Trainings whose steps a GPU computes, next to those of the CPU.

#include <gtest/gtest.h>

#include <cmath>

#include "host_steps/networks.hpp"
#include "unisono/training.hpp"

namespace unisono::gpu {
namespace {

// Two convolutions with what a U-Net has between them
Network small_unet_of_parameters() {
  NetworkBuilder net("small U-Net");
  const auto weights = [&](const char* name, const Shape& shape) {
    std::size_t count = 1;
    for (const Dim& d : shape) count *= static_cast<std::size_t>(d.value());
    std::vector<float> w(count);
    for (std::size_t i = 0; i < count; ++i) w[i] = 0.3f * std::sin(static_cast<float>(7 * i + 1));
    return net.constant(name, shape, std::move(w));
  };
  const NetworkValue x = net.input("x", {2, 3, 8, 12});
  const NetworkValue h = conv2d(x, weights("first", {16, 3, 3, 3}), {.pad = 1});
  const NetworkValue top = silu(group_norm(h, {.groups = 4, .scale = weights("scale", {16})}));
  const NetworkValue low =
      silu(conv2d(max_pool(top), weights("second", {8, 16, 3, 3}), weights("bias", {8}), {.pad = 1}));
  net.output(conv2d(concat({upsample(low), top}), weights("head", {8, 24, 1, 1})), "y");
  return net.build();
}

std::vector<double> losses_of(Trainer& trainer) {
  const HostTensors data = random_inputs({{"x", {2, 3, 8, 12}}, {"target", {2, 8, 8, 12}}}, 3);
  std::vector<double> losses;
  for (int i = 0; i < 6; ++i) losses.push_back(trainer.step(views<ConstTensorView>(data), 0.02).loss);
  return losses;
}

TEST(Training, StepsOnAGpuAreThoseOfTheCpuAndTheSameEachTime) {
  const TrainerOptions on_gpu{.device = Device::cuda};
  Trainer cpu(small_unet_of_parameters(), mean_squared_error()),
      gpu(small_unet_of_parameters(), mean_squared_error(), on_gpu),
      again(small_unet_of_parameters(), mean_squared_error(), on_gpu);
  const std::vector<double> expected = losses_of(cpu), losses = losses_of(gpu);
  EXPECT_EQ(losses_of(again), losses);
  EXPECT_EQ(again.state().values, gpu.state().values);
  EXPECT_LT(losses.back(), 0.9 * losses.front());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 0.02 * expected[i]) << i;
}

}  // namespace
}  // namespace unisono::gpu
