// Steps of 128 elements of k: two atoms of each operand in a stage.

#include <fmt/format.h>

#include <array>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

struct Kind {
  const char* text;  // {T}: dtype
  std::array<const char*, 8> plans;
};

constexpr std::array kinds{
    Kind{"store acc as y : {T}",
         {"load=im2col", "load=halo", "load=im2col cluster=2x2", "load=halo cluster=1x2", "load=im2col split=on",
          "load=im2col swap=on tile=128x64", "load=halo swap=on tile=256x64", "load=im2col tile=64x40 order=pingpong"}},
    Kind{"operand r[m,n] : {T}\nstore silu(acc * s[b,n] + bias[n]) + r as y : {T}",
         {"load=im2col order=cooperative", "load=halo order=pingpong2 tile=128x64", "load=im2col cluster=2x1",
          "load=halo cluster=2x1", "load=halo split=on", "load=im2col cluster=1x4 tile=64x32", "fetch=1 tile=128x64",
          "load=im2col tile=256x64"}},
    Kind{"h = acc + bias[n]\nstore h : {T}\nstore silu(group_norm(h, groups=2, scale=gamma[n], shift=beta[n])) as y : "
         "{T}",
         {"mode=resident load=im2col", "mode=streamed load=im2col tile=64x64", "mode=resident load=halo",
          "mode=streamed load=halo tile=64x64", "mode=resident split=on", "mode=streamed swap=on tile=128x64",
          "mode=resident cluster=2x1", "mode=resident order=cooperative"}},
    Kind{"store acc + bias[n] + 0.1 * index(w) as y : f32\nstore max(acc, over=m) as top : f32",
         {"load=im2col", "load=halo", "", "order=cooperative", "load=im2col cluster=2x1", "", "load=halo cluster=1x2",
          "tile=64x64"}}};

void fill(Case& c, DType type, const char* plan, std::uint64_t seed) {
  c.text = filled(c.text, type);
  c.options.device = Device::cuda;
  c.options.plan = fmt::format("depth=128 {}", plan);
  c.seed = seed;
}

/// Taps times blocks of 64 channels, odd as often as even: the last step then has one atom of zeros.
Conv2d draw_convolution(int i, Random& random) {
  Conv2d c{.n = random.between(1, 3),
           .h = random.between(5, 22),
           .w = random.between(5, 22),
           .c = random.one_of({8, 64, 72, 128, 136, 192, 256, 320}),
           .k = 16 * random.between(2, 10)};
  c.r = random.one_of({1, 3, 3, 5}), c.s = i % 4 == 3 ? 1 : c.r;
  const std::int64_t stride = i % 5 == 1 ? 2 : 1, dilation = i % 7 == 2 ? 2 : 1;
  c.stride = {stride, stride}, c.dilation = {dilation, 1};
  c.pad = {c.r / 2 * dilation, c.s / 2, c.r / 2 * dilation, random.between(0, 2)};
  return c;
}

Gemm draw_product(int i, Random& random) {
  return {.batch = i % 3 == 0 ? random.between(2, 4) : 1,
          .m = 8 * random.between(1, 40),
          .n = 16 * random.between(1, 20),
          .k = 8 * random.between(1, 90),
          .transpose_a = i % 2 == 0,
          .transpose_b = i % 4 < 2};
}

ConvTranspose2d draw_transposed(Random& random) {
  return {.n = random.between(1, 2),
          .h = random.between(3, 12),
          .w = random.between(3, 12),
          .c = random.one_of({64, 72, 128, 200}),
          .k = 16 * random.between(1, 6),
          .r = random.between(2, 4),
          .s = 4,
          .stride = {2, 2},
          .pad = {1, 1, 1, 1}};
}

}  // namespace

std::vector<Case> deep_cases(std::uint64_t seed) {
  Random random(seed + 31);
  std::vector<Case> cases;
  for (int i = 0; i < 128; ++i) {
    const Kind& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
    const DType type = i % 3 == 0 ? DType::f16 : DType::bf16;
    Case c{.name = fmt::format("deep {}", i), .conv = {}, .text = kind.text, .options = {}};
    if (i % 16 < 8) {
      c.conv = draw_convolution(i, random);
    } else if (i % 16 < 14) {
      c.product = draw_product(i / 16 * 6 + i % 16, random);
      c.product->dtype_a = c.product->dtype_b = type;
      c.conv = plan::as_convolution(*c.product).conv;
    } else {
      c.transposed = draw_transposed(random);
      c.transposed->dtype_x = c.transposed->dtype_w = type;
      c.conv = plan::as_convolution(*c.transposed).conv;
    }
    c.conv.dtype_x = c.conv.dtype_w = type;
    fill(c, type, kind.plans[static_cast<std::size_t>(i / 4) % 8], random.next());
    if (!is_served(c)) c.options.plan = "depth=128";
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

/// Nine taps of one block of 64 channels and a half are 18 atoms, of one block 9: the last step has one.
std::vector<Case> small_deep_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* plan, std::int64_t channels) {
    Case c{.name = "deep", .conv = {}, .text = "store silu(acc + bias[n]) as y : {T}", .options = {}};
    c.conv = {.n = 2, .h = 9, .w = 11, .c = channels, .k = 64, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
    c.conv.dtype_x = c.conv.dtype_w = DType::bf16;
    fill(c, DType::bf16, plan, 40 + cases.size());
    cases.push_back(std::move(c));
  };
  add("load=im2col tile=128x64", 64);
  add("load=im2col tile=64x32 cluster=2x2", 96);
  add("load=halo tile=128x64 swap=on", 96);
  Case product{.name = "deep", .conv = {}, .text = "store acc as y : {T}", .options = {}};
  product.product = {.m = 136, .n = 72, .k = 200, .transpose_a = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  product.conv = plan::as_convolution(*product.product).conv;
  fill(product, DType::bf16, "load=im2col tile=128x72", 50);
  cases.push_back(std::move(product));
  return cases;
}

}  // namespace unisono::gpu
