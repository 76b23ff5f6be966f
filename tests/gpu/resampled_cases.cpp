// Convolutions whose kernels store what is pooled or upsampled by 2 as well.

#include <fmt/format.h>

#include "gpu/case.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr const char* plain[] = {"store acc as y : bf16", "store silu(acc + bias[n]) + r[m,n] as y : bf16",
                                 "h = acc + bias[n]\nstore h : bf16\nstore tanh(h) as y : bf16"};
constexpr const char* normalised[] = {
    "store mish(group_norm(acc + bias[n], groups=8, scale=gamma[n], shift=beta[n])) as y : bf16",
    "h = acc + bias[n] + temb[b,n]\nstore h : bf16\nstore silu(group_norm(h, groups=8, scale=gamma[n])) as y : bf16",
    "y = group_norm(acc, groups=8)\nstore silu(y) + r[m,n] as z : bf16\nstore y : bf16"};
constexpr const char* other[] = {"store silu(layer_norm(acc + bias[n], scale=gamma[n])) as y : bf16",
                                 "store softmax(acc + bias[n]) as y : bf16"};

constexpr const char* plans[] = {"",
                                 "load=halo tile=128x64",
                                 "load=halo tile=256x64 order=pingpong2",
                                 "load=halo swap=on tile=128x128",
                                 "load=im2col tile=128x128",
                                 "load=im2col tile=64x40",
                                 "load=im2col swap=on tile=256x64",
                                 "load=halo cluster=2x1",
                                 "split=on"};
constexpr const char* plans_normalised[] = {"",
                                            "mode=resident load=halo tile=128x64",
                                            "mode=resident swap=on load=halo tile=256x64",
                                            "mode=resident order=cooperative load=halo",
                                            "mode=resident load=im2col",
                                            "mode=resident split=on",
                                            "mode=streamed load=halo tile=128x64",
                                            "mode=streamed swap=on load=halo tile=256x64",
                                            "mode=streamed swap=on load=im2col tile=256x64",
                                            "mode=streamed order=pingpong2 load=halo",
                                            "mode=streamed load=im2col",
                                            "mode=streamed cluster=2x1"};

std::string of_type(std::string text, DType type) {
  if (type == DType::bf16) return text;
  for (std::size_t at = text.find("bf16"); at != std::string::npos; at = text.find("bf16", at))
    text.replace(at, 4, "f16");
  return text;
}

// One of these: both, a pooled tensor, an upsampled one, that alone
plan::Resampled drawn(Random& random) {
  switch (random.between(0, 3)) {
    case 0: return {.pooled = "p", .upsampled = "e"};
    case 1: return {.pooled = "p"};
    case 2: return {.upsampled = "e"};
    default: return {.upsampled = "e", .only_upsampled = true};
  }
}

}  // namespace

Case resampled_case(const Conv2d& conv, std::string text, std::string plan, plan::Resampled resampled) {
  Case c{.name = "resampled", .conv = conv, .text = of_type(std::move(text), conv.dtype_x), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  c.resampled = std::move(resampled);
  for (const std::string& name : {std::string("r")}) c.options.storage[name] = conv.dtype_x;
  if (c.text.find("r[m,n]") == std::string::npos) c.options.storage.clear();
  return c;
}

// Small ones, of every mode and way to store
std::vector<Case> small_resampled_cases() {
  const auto conv = [](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k,
                       std::int64_t taps, DType type = DType::bf16) {
    Conv2d x{.n = n, .h = h, .w = w, .c = c, .k = k, .r = taps, .s = taps};
    x.pad = {taps / 2, taps / 2, taps / 2, taps / 2};
    x.dtype_x = x.dtype_w = type;
    return x;
  };
  const plan::Resampled both{.pooled = "p", .upsampled = "e"}, pooled{.pooled = "p"},
      only{.upsampled = "e", .only_upsampled = true};
  Conv2d halved = conv(2, 9, 15, 16, 40, 3);
  halved.stride = {2, 2};
  return {
      resampled_case(conv(2, 9, 11, 16, 72, 3), plain[2], "tile=128x64 load=halo split=off", both),
      resampled_case(conv(1, 7, 16, 32, 40, 1), plain[1], "tile=64x40 load=im2col split=off", only),
      resampled_case(halved, plain[0], "load=im2col tile=64x40", only),
      resampled_case(conv(2, 13, 19, 16, 64, 3, DType::f16), normalised[0],
                     "swap=on load=halo mode=resident tile=256x64", pooled),
      resampled_case(conv(1, 48, 87, 16, 64, 3), normalised[1], "tile=64x64 load=halo mode=streamed", both),
      resampled_case(conv(1, 96, 32, 16, 64, 1), normalised[0], "tile=128x64 swap=on load=im2col mode=streamed", only),
      resampled_case(conv(1, 5, 6, 16, 32, 3), other[0], "load=halo tile=64x32 split=off", pooled),
      resampled_case(conv(2, 1, 7, 16, 24, 3), other[1], "load=halo tile=64x24", both)};
}

// Sizes of 1 to 40, odd ones as often; where runs serve, widths that they know lines of
std::vector<Case> resampled_cases(std::uint64_t seed) {
  Random random(seed * 77 + 5);
  std::vector<Case> cases;
  int tries = 0;
  while (cases.size() < 96 && ++tries < 2000) {
    const int kind = random.between(0, 9);
    const bool norm = kind < 5, runs_fit = random.chance(0.4);
    const std::int64_t taps = random.chance(0.4) ? 1 : 3, stride = random.chance(0.1) ? 2 : 1;
    Conv2d conv{.n = random.between(1, 3),
                .h = random.between(1, 40),
                .w = runs_fit ? random.one_of({1, 2, 4, 8, 16, 32, 48}) : random.between(1, 40),
                .c = 8 * random.between(1, 16),
                .k = random.chance(0.5) ? 64 * random.between(1, 4) : 8 * random.between(1, 20),
                .r = taps,
                .s = taps,
                .stride = {stride, stride},
                .pad = {taps / 2, taps / 2, taps / 2, taps / 2}};
    conv.dtype_x = conv.dtype_w = random.chance(0.3) ? DType::f16 : DType::bf16;
    const std::string text = norm        ? normalised[random.between(0, std::size(normalised) - 1)]
                             : kind == 9 ? other[random.between(0, std::size(other) - 1)]
                                         : plain[random.between(0, std::size(plain) - 1)];
    const std::string plan = norm        ? plans_normalised[random.between(0, std::size(plans_normalised) - 1)]
                             : kind == 9 ? ""
                                         : plans[random.between(0, std::size(plans) - 1)];
    Case c = resampled_case(conv, text, plan, drawn(random));
    c.seed = seed + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
