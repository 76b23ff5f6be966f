// Kernels whose filters stay in shared memory.

#include <fmt/format.h>

#include "gpu/case.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr const char* bare = "store acc as y : {}";
constexpr const char* block =
    "store silu(group_norm(acc + bias[n], groups=8, scale=gamma[n], shift=beta[n])) as y : {}";
constexpr const char* residual = "store relu(acc + bias[n] + r[m,n]) as y : {}";
constexpr const char* rows = "store layer_norm(acc + bias[n]) as y : {}";
constexpr const char* sums = "store acc as y : {}\nstore sum(acc, over=m, per=b) as total : f32";

Case stationary_case(const Conv2d& conv, const char* text, std::string plan) {
  Case c{.name = "stationary", .conv = conv, .text = {}, .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = "stationary=on " + std::move(plan);
  c.text = fmt::format(fmt::runtime(text), to_string(conv.dtype_x));
  return c;
}

Conv2d conv(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps,
            DType type = DType::bf16) {
  Conv2d x{
      .n = n, .h = h, .w = w, .c = c, .k = k, .r = taps, .s = taps, .pad = {taps / 2, taps / 2, taps / 2, taps / 2}};
  x.dtype_x = x.dtype_w = type;
  return x;
}

}  // namespace

// Each with more tiles than an H200 has SMs, so that filters are used again
std::vector<Case> small_stationary_cases() {
  std::vector<Case> cases{
      stationary_case(conv(7, 35, 41, 64, 64, 3), bare, "load=halo tile=64x64"),
      stationary_case(conv(5, 35, 41, 40, 80, 1), block, "load=im2col tile=64x40 mode=resident"),
      stationary_case(conv(9, 33, 31, 16, 64, 3), block, "load=halo swap=on tile=64x64 mode=streamed"),
      stationary_case(conv(5, 33, 37, 72, 96, 1), residual, "load=im2col order=cooperative tile=128x32"),
      stationary_case(conv(5, 47, 37, 32, 128, 3), bare, "load=halo cluster=1x2 tile=64x32")};
  return cases;
}

std::vector<Case> stationary_cases(std::uint64_t seed) {
  constexpr const char* plans[] = {"load=halo",
                                   "load=im2col",
                                   "load=halo swap=on tile=256x64",
                                   "load=halo swap=on tile=128x64 order=pingpong2",
                                   "load=im2col swap=on tile=128x64",
                                   "load=im2col order=cooperative",
                                   "load=halo order=pingpong2",
                                   "load=halo cluster=2x1",
                                   "load=im2col cluster=1x2",
                                   "load=im2col cluster=2x2",
                                   "load=halo mode=streamed",
                                   "load=im2col mode=resident",
                                   "tile=64x64"};
  constexpr const char* texts[] = {bare, block, residual, rows, sums};
  constexpr DType types[] = {DType::bf16, DType::f16, DType::f32};
  Random random(seed * 137 + 5);
  std::vector<Case> cases = small_stationary_cases();
  for (int tries = 0; cases.size() < 72 && tries < 4000; ++tries) {
    const std::int64_t taps = random.chance(0.5) ? 1 : 3;
    Conv2d x = conv(random.between(1, 6), random.between(20, 90), random.between(20, 90), 8 * random.between(1, 20),
                    8 * random.between(1, 24), taps, types[random.between(0, 5) / 2]);
    if (random.chance(0.15)) x.stride = {2, 1};
    Case c = stationary_case(x, texts[random.between(0, 4)], plans[random.between(0, std::size(plans) - 1)]);
    c.seed = seed + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
