// Contractions that are loaded or stored by ordinary instructions.

#include <fmt/format.h>

#include <array>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

// {T}: dtype; statistics of images of any number of channels are in one group
constexpr std::array texts{
    "store acc as y : {T}",
    "store silu(acc + bias[n]) as y : {T}",
    "operand r[m,n] : {T}\nstore relu(acc * s[b,n] + bias[n]) + r as y : {T}",
    "h = acc + bias[n]\nstore h : {T}\nstore tanh(h) as y : {T}",
    "operand r[m,n]\nh = acc + bias[n]\nstore h : {T}\nstore silu(group_norm(h, groups=1, scale=gamma[n], "
    "shift=beta[n])) + r as y : {T}",
    "h = acc + bias[n]\nstore h : {T}\nstore layer_norm(h, scale=gamma[n], shift=beta[n]) as y : {T}",
    "store silu(instance_norm(acc, scale=gamma[n], shift=beta[n])) as y : {T}"};

constexpr std::array plans{"",           "",           "order=cooperative", "swap=on",       "depth=32",
                           "split=on",   "tile=64x64", "order=pingpong2",   "mode=streamed", "mode=resident",
                           "tile=128x96"};

std::int64_t padded_for(std::int64_t extent, std::int64_t pad, std::int64_t taps, std::int64_t dilation) {
  return std::max(extent, (taps - 1) * dilation + 1 - 2 * pad);
}

// What is odd about each, in turn
Conv2d draw_convolution(int kind, Random& random) {
  Conv2d c;
  c.n = random.between(1, 3), c.h = random.between(3, 24), c.w = random.between(3, 24);
  c.c = 8 * random.between(1, 8), c.k = 8 * random.between(1, 20);
  c.r = c.s = random.one_of({1, 3, 3, 5});
  c.stride = {random.between(1, 2), random.between(1, 2)};
  c.dilation = {random.between(1, 2), 1};
  c.pad = {c.r / 2, c.s / 2, c.r / 2, c.s / 2};
  const auto odd = [&](int most) {
    return random.chance(0.3) ? random.one_of({1, 2, 3, 10}) : random.between(1, most);
  };
  switch (kind % 8) {
    case 0: c.c = odd(40); break;
    case 1: c.k = odd(150); break;
    case 2: c.c = odd(30), c.k = odd(90); break;
    case 3: c.stride = {9, random.between(1, 11)}, c.h *= 4, c.w *= 4; break;
    case 4:
      c.groups = random.between(2, 4);
      c.c = c.groups * random.between(1, 20), c.k = c.groups * 8 * random.between(1, 8);
      break;
    case 5:
      c.groups = c.c = random.between(2, 80);
      c.k = c.c * random.between(1, 2);
      if (random.chance(0.3)) c.layout = Layout::nchw;
      break;
    case 6:
      c.groups = random.between(2, 6);
      c.c = c.groups * random.between(1, 6), c.k = c.groups * random.between(1, 12);
      break;
    default: c.layout = Layout::nchw, c.c = odd(40), c.k = random.chance(0.5) ? odd(90) : c.k; break;
  }
  c.h = padded_for(c.h, c.pad[0], c.r, c.dilation[0]), c.w = padded_for(c.w, c.pad[1], c.s, c.dilation[1]);
  return c;
}

ConvTranspose2d draw_transposed(int i, Random& random) {
  ConvTranspose2d t;
  t.n = random.between(1, 3), t.h = random.between(1, 12), t.w = random.between(1, 12);
  t.c = random.chance(0.5) ? 8 * random.between(1, 8) : random.between(1, 40);
  t.k = random.chance(0.5) ? 8 * random.between(1, 12) : random.between(1, 90);
  t.r = random.between(1, 4), t.s = random.between(1, 4);
  t.stride = {random.between(1, 3), random.between(1, 3)};
  t.dilation = {random.between(1, 2), 1};
  t.pad = {std::min<std::int64_t>(1, t.r - 1), 0, 0, std::min<std::int64_t>(1, t.s - 1)};
  t.output_pad = {random.below(static_cast<int>(t.stride[0])), random.below(static_cast<int>(t.stride[1]))};
  if (i % 3 == 2) t.layout = Layout::nchw;
  if (i % 4 == 1)
    t.groups = random.between(2, 5), t.c = t.groups * random.between(1, 6), t.k = t.groups * random.between(1, 9);
  if (i % 8 == 5) t.k = t.groups * 8 * random.between(1, 3);
  return t;
}

Gemm draw_product(int i, Random& random) {
  return {.batch = i % 3 == 0 ? random.between(2, 4) : 1,
          .m = random.between(1, 300),
          .n = random.between(1, 200),
          .k = random.between(1, 300),
          .transpose_a = i % 2 == 0,
          .transpose_b = i % 4 < 2};
}

}  // namespace

std::vector<Case> gathered_cases(std::uint64_t seed) {
  Random random(seed + 4);
  std::vector<Case> cases;
  for (int i = 0; i < 112; ++i) {
    const DType type = i % 4 == 0 ? DType::f16 : DType::bf16;
    Case c{.name = fmt::format("gathered {}", i),
           .conv = {},
           .text = filled(texts[i % texts.size()], type),
           .options = {}};
    if (i % 8 < 4) {
      c.conv = draw_convolution(i / 8 * 4 + i % 8, random);
    } else if (i % 8 < 6) {
      c.product = draw_product(i / 8 * 2 + i % 8, random);
      c.product->dtype_a = c.product->dtype_b = type;
      c.conv = plan::as_convolution(*c.product).conv;
    } else {
      c.transposed = draw_transposed(i / 8 * 2 + i % 8, random);
      c.transposed->dtype_x = c.transposed->dtype_w = type;
      c.conv = plan::as_convolution(*c.transposed).conv;
    }
    c.conv.dtype_x = c.conv.dtype_w = type;
    c.options.device = Device::cuda;
    c.options.plan = plans[i * 7 % plans.size()];
    if (!is_served(c)) c.options.plan.clear();
    c.seed = random.next();
    std::string reason;
    if (is_served(c, &reason)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
