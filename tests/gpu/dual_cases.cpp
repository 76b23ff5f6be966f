// Dual products, two right operands of one A, and dual convolutions, two filters of one image; and epilogues that read
// both accumulators.

#include <fmt/format.h>

#include <array>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr std::array texts{
    "store silu(acc0) * acc1 as y : {T}",
    "store gelu(acc0 + bias[n]) * (acc1 + more[n]) as y : {T}",
    "operand r[m,n] : {T}\nstore relu(acc0) * acc1 + r * t[b] as y : {T}",
    // what the backward pass reads: one store beside the result, and two, which is general
    "store acc1 as up : {T}\nstore silu(acc0) * acc1 as y : {T}",
    "store acc0 as gate : {T}\nstore acc1 as up : {T}\nstore silu(acc0) * acc1 as y : {T}",
    // clamped and scaled
    "gate = clamp(acc0 + bias[n], upper=1.5)\nup = clamp(acc1 + more[n], lower=-1.5, upper=1.5)\n"
    "store gate * sigmoid(1.702 * gate) * (up + 1) as y : {T}",
    "operand r[m,n] : {T}\noperand q[m,n] : {T}\nstore tanh(acc0 + r) * acc1 + q as y : {T}",
    "store acc1 * s[m] + 0.01 * index(n) as y : f32\nstore sum(silu(acc0) * acc1, over=m) as total : f32",
    "store acc1 as y : {T}",
};

constexpr std::array plans{"",
                           "order=cooperative tile=128x128",
                           "order=cooperative tile=128x64 cluster=2x1",
                           "order=pingpong tile=64x64",
                           "tile=256x64 cluster=1x2",
                           "order=pingpong2 tile=128x64",
                           "tile=128x64 cluster=2x2",
                           "tile=128x64 depth=128",
                           "tile=128x40",
                           "tile=64x128 order=pingpong fetch=1",
                           "family=plain tile=64x64",
                           "family=plain tile=64x4"};

// A gated block that is normalised, resident and streamed, and one with a store ahead of that
constexpr const char* block =
    "store silu(group_norm(sigmoid(acc0 + more[n]) * acc1 + bias[n], groups={G}, scale=gamma[n], shift=beta[n])) as y "
    ": "
    "{T}";
constexpr const char* block_and_gate =
    "operand r[m,n] : {T}\nx = sigmoid(acc0) * (acc1 + r)\nstore x as gated : {T}\n"
    "store group_norm(x, groups={G}) * t[b] as y : {T}";

constexpr std::array convolution_plans{"",
                                       "load=halo tile=128x64 order=cooperative",
                                       "load=im2col tile=64x64 order=pingpong",
                                       "load=halo tile=128x128 order=cooperative",
                                       "load=im2col tile=128x64 cluster=2x1",
                                       "load=halo tile=128x64 cluster=1x2",
                                       "load=im2col tile=128x40 depth=128",
                                       "load=halo tile=256x64",
                                       "load=im2col tile=128x64 order=pingpong2",
                                       "mode=resident",
                                       "mode=streamed load=im2col",
                                       "mode=streamed load=halo",
                                       "family=plain"};

Case dual(const char* text, const char* plan, const Conv2d& conv, DType type, std::uint64_t seed) {
  Case c{.name = "dual convolution",
         .conv = conv,
         .text = filled(text, type == DType::f32 ? DType::bf16 : type, conv.k % 8 == 0 ? 8 : 1),
         .options = {}};
  c.conv.dtype_x = c.conv.dtype_w = type, c.conv.products = 2;
  c.options.device = Device::cuda, c.options.plan = plan;
  c.seed = seed;
  return c;
}

Conv2d image(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps,
             Pair stride = 1, Pair dilation = 1) {
  const std::int64_t top = taps / 2 * dilation.h, left = taps / 2 * dilation.w;
  return {.n = n,
          .h = h,
          .w = w,
          .c = c,
          .k = k,
          .r = taps,
          .s = taps,
          .stride = stride,
          .pad = {top, left, top, left},
          .dilation = dilation};
}

Case dual(const char* text, const char* plan, const Gemm& product, DType type, std::uint64_t seed) {
  Case c{.name = "dual", .conv = {}, .text = filled(text, type == DType::f32 ? DType::bf16 : type), .options = {}};
  c.product = product;
  c.product->dtype_a = c.product->dtype_b = type, c.product->products = 2;
  c.conv = plan::as_convolution(*c.product).conv;
  c.options.device = Device::cuda, c.options.plan = plan;
  c.seed = seed;
  return c;
}

void add_convolutions(std::vector<Case>& cases, Random& random) {
  for (std::size_t i = 0; i < 120; ++i) {
    const DType type = i % 9 == 4 ? DType::f32 : i % 3 == 0 ? DType::f16 : DType::bf16;
    const bool odd = i % 11 == 7;
    Conv2d conv = image(random.between(1, 4), random.between(3, 50), random.between(3, 50),
                        odd ? random.between(1, 40) : 8 * random.between(1, 24),
                        odd ? random.between(1, 60) : 8 * random.between(1, 40), 1 + 2 * random.between(0, 2),
                        i % 4 == 1 ? 2 : 1, i % 6 == 5 ? 2 : 1);
    if (i % 5 == 3) conv.pad = {random.between(0, 3), 2, 2, random.between(0, 3)}, conv.h += 8, conv.w += 8;
    if (i % 13 == 6) conv.layout = Layout::nchw;
    if (i % 13 == 11) conv.groups = 2, conv.c *= 2, conv.k *= 2;
    const char* text = i % 5 < 2 ? (i % 5 == 0 ? block : block_and_gate) : texts[i % texts.size()];
    Case c = dual(text, convolution_plans[i / 2 % convolution_plans.size()], conv, type, random.next());
    if (!is_served(c)) c.options.plan = "";
    if (is_served(c)) cases.push_back(std::move(c));
  }
}

// Halo and im2col tiles, strides, dilation, one tap, clusters, and every mode of normalising; what comes by plain loads
void add_small_convolutions(std::vector<Case>& cases) {
  std::uint64_t seed = 90;
  const auto add = [&](const char* text, const char* plan, const Conv2d& conv, DType type = DType::bf16) {
    cases.push_back(dual(text, plan, conv, type, seed++));
  };
  add(texts[1], "load=halo tile=128x64 order=cooperative", image(2, 13, 11, 72, 104, 3));
  add(texts[2], "load=im2col tile=64x64 order=pingpong", image(2, 15, 12, 40, 72, 3, 2), DType::f16);
  add(texts[3], "load=halo tile=128x40 cluster=1x2", image(1, 11, 19, 64, 80, 3, 1, 2));
  Conv2d uneven = image(2, 9, 14, 24, 56, 3, {1, 2});
  uneven.pad = {0, 2, 1, 0}, uneven.s = 2;
  add(texts[4], "load=im2col depth=128 cluster=2x1", uneven);
  add(texts[7], "", image(3, 9, 7, 32, 48, 1, 2));
  add(block, "load=halo tile=128x64 mode=resident", image(3, 17, 12, 64, 128, 3));
  add(block_and_gate, "load=im2col tile=128x64 mode=resident", image(2, 14, 13, 40, 96, 3, 2), DType::f16);
  add(block, "load=im2col tile=64x64 mode=streamed", image(2, 23, 19, 40, 128, 1));
  add(block_and_gate, "load=halo tile=128x64 mode=streamed", image(2, 25, 22, 16, 128, 3));
  add(texts[0], "load=halo", image(1, 10, 9, 36, 40, 3), DType::f32);
  add(texts[1], "", image(2, 7, 5, 19, 27, 3));
  add(texts[1], "load=halo tile=128x64", image(2, 9, 11, 16, 72, 3));
  cases.back().resampled = {.pooled = "p", .upsampled = "e"};
  add(block, "load=im2col tile=64x64 mode=resident", image(2, 9, 11, 16, 64, 3));
  Conv2d grouped = image(1, 6, 7, 16, 24, 3), planes = image(2, 5, 8, 16, 24, 3);
  grouped.groups = 2, planes.layout = Layout::nchw;
  add(texts[1], "", grouped), add(texts[0], "", planes);
}

}  // namespace

std::vector<Case> dual_cases(std::uint64_t seed) {
  Random random(seed + 53);
  std::vector<Case> cases;
  for (std::size_t i = 0; i < 180; ++i) {
    const DType type = i % 9 == 4 ? DType::f32 : i % 3 == 0 ? DType::f16 : DType::bf16;
    const bool odd = i % 5 == 2;  // rows of no multiple of 16 bytes
    const Gemm product{.batch = i % 7 == 3 ? random.between(2, 4) : 1,
                       .m = random.between(1, 700),
                       .n = odd ? random.between(1, 300) : 8 * random.between(1, 60),
                       .k = odd ? random.between(1, 300) : 8 * random.between(1, 120),
                       .transpose_a = i % 8 == 5,
                       .transpose_b = i % 4 != 1};
    Case c = dual(texts[i % texts.size()], plans[i / 2 % plans.size()], product, type, random.next());
    if (i % 7 == 3) c.gaps.matrices = 8 * random.between(0, 2);
    if (!is_served(c)) c.options.plan = "";
    if (is_served(c)) cases.push_back(std::move(c));  // reductions of odd products are not
  }
  add_convolutions(cases, random);
  return cases;
}

// Odd rows, a last tile of columns that hangs over, both layouts of B, a batch, clusters, and the kernels without
// tensor cores.
std::vector<Case> small_dual_cases() {
  const Gemm odd{.m = 147, .n = 104, .k = 200, .transpose_b = true}, columns{.m = 136, .n = 72, .k = 72},
      several{.batch = 2, .m = 70, .n = 40, .k = 64, .transpose_b = true}, tiny{.m = 33, .n = 27, .k = 19};
  std::uint64_t seed = 60;
  std::vector<Case> cases;
  const auto add = [&](std::size_t text, const char* plan, const Gemm& product, DType type = DType::bf16) {
    cases.push_back(dual(texts[text], plan, product, type, seed++));
  };
  add(1, "tile=128x128 order=cooperative", odd);
  add(2, "tile=64x64 order=pingpong cluster=2x1 fetch=1", odd, DType::f16);
  add(3, "tile=128x64", columns);
  add(4, "tile=128x40", odd);
  add(5, "tile=128x64 depth=128 cluster=1x2", odd);
  add(6, "", several);
  add(7, "tile=64x64", odd);
  add(0, "", {.m = 65, .n = 48, .k = 44, .transpose_b = true}, DType::f32);
  add(1, "", tiny);
  add(7, "family=plain tile=64x4", {.m = 33, .n = 27, .k = 19, .transpose_a = true}, DType::f16);
  if (!is_served(cases.back())) cases.pop_back();
  add_small_convolutions(cases);
  return cases;
}

}  // namespace unisono::gpu
