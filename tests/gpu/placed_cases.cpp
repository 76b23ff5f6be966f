// Operands and results that do not lie as the output does, operands that are not bound, and rounding of stores.

#include <array>
#include <optional>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr std::array texts{
    // one matrix, or image, for all; of some coordinates of its rows
    "operand c[h,n] : {T}\nstore silu(acc + c) as y : {T}",
    "operand c[h,w,n] : {T}\nstore acc + c + 0.5 * pos[h,w] as y : {T}",
    "operand c[w,n] : f32\nstore acc * line[h] + c - column[w] as y : {T}",
    // any strides
    "operand c[m,n] : {T} strided\noperand shared_d[m,n] : f32 strided\nstore relu(acc + c) + shared_d as y : {T}",
    "operand s[m] : f32 strided\noperand c[m,n] : f32 strided\nstore acc * s + c as y : f32 strided",
    "store relu(acc + bias[n]) as y : {T} strided\nstore acc as raw : {T}",
    "store relu(acc + bias[n]) as y : {T}\nstore cast(acc, i32) as whole : i32 strided",
    // not bound
    "operand unbound_bias[n] = 0.25\noperand unbound_gain[b] = 1.5\noperand unbound_s[m] = -0.5\n"
    "store acc * unbound_gain + unbound_bias + unbound_s as y : {T}",
    "operand unbound_t[b,n] : {T} = 0.5\nstore gelu(acc + unbound_t) as y : {T}",
    // alpha and beta of each matrix of a batch, in memory
    "operand c[m,n] : {T}\nstore alpha[b] * acc + beta[b] * c as y : {T}",
    // rounding
    "store relu(acc + bias[n]) as y : {T} toward_zero",
    "operand seed : i32 = 7\nstore acc + bias[n] as y : {T} stochastic(seed)\nstore acc as z : {T} stochastic(seed)",
    "operand c[h,w,n] : {T}\noperand d[m,n] : {T} strided\noperand e[m,n] : {T}\n"
    "store silu(acc + c + e) * d as y : {T} toward_zero strided",
};
// With a normalisation over rows
constexpr std::array norms{
    "operand c[h,w,n] : {T}\nstore mish(group_norm(acc + c, groups={G}, scale=gamma[n])) as y : {T}",
    "operand c[h,w,n] : {T}\noperand d[m,n] : f32 strided\nstore silu(group_norm(acc + c, groups={G})) + d as y : {T}",
    "operand unbound_beta[n] = 0.5\nstore silu(group_norm(acc, groups={G}, shift=unbound_beta)) as y : {T} toward_zero",
    "store group_norm(acc + pos[h,w], groups={G}) as y : {T}",
    "store relu(group_norm(acc, groups={G})) as y : {T} strided",
};

Case placed(const char* text, const char* plan, std::optional<Gemm> product, const Conv2d& conv, DType type,
            std::uint64_t seed, std::int64_t groups = 1) {
  Case c{.name = "placed", .conv = conv, .text = filled(text, type, groups), .options = {}};
  if (product) c.product = product, c.product->dtype_a = c.product->dtype_b = type;
  if (product) c.conv = plan::as_convolution(*c.product).conv;
  c.conv.dtype_x = c.conv.dtype_w = type;
  c.options.device = Device::cuda, c.options.plan = plan;
  c.seed = seed;
  return c;
}

Conv2d conv_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k,
               Layout layout = Layout::nhwc) {
  return {.n = n, .h = h, .w = w, .c = c, .k = k, .r = 3, .s = 3, .pad = {1, 1, 1, 1}, .layout = layout};
}

constexpr std::array plans{
    "",        "order=cooperative", "swap=on", "load=halo", "tile=128x64 cluster=2x1", "family=plain tile=64x64",
    "fetch=1", "depth=128"};

}  // namespace

std::vector<Case> placed_cases(std::uint64_t seed) {
  Random random(seed + 59);
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    if (!is_served(c)) c.options.plan = "";
    if (is_served(c)) cases.push_back(std::move(c));
  };
  for (std::size_t i = 0; i < 150; ++i) {
    const DType type = i % 3 == 0 ? DType::f16 : DType::bf16;
    const char* plan = plans[i / 3 % plans.size()];
    const std::int64_t channels = i % 5 == 4 ? random.between(3, 120) : 8 * random.between(1, 30);
    if (i % 2 == 0) {
      const Gemm product{.batch = i % 4 == 0 ? random.between(2, 5) : 1,
                         .m = random.between(1, 500),
                         .n = channels,
                         .k = 8 * random.between(1, 60),
                         .transpose_b = i % 8 != 6};
      add(placed(texts[i / 2 % texts.size()], plan, product, {}, type, random.next()));
      continue;
    }
    const Conv2d conv = conv_of(random.between(1, 4), random.between(3, 40), random.between(3, 40),
                                8 * random.between(1, 12), channels, i % 13 == 7 ? Layout::nchw : Layout::nhwc);
    add(placed(texts[i / 2 % texts.size()], plan, {}, conv, type, random.next()));
    const Conv2d block = conv_of(random.between(1, 3), random.between(8, 40), random.between(8, 40), 64, 64);
    add(placed(norms[i / 2 % norms.size()],
               i % 4 == 1   ? "mode=resident"
               : i % 8 == 3 ? "mode=streamed"
                            : "",
               {}, block, type, random.next(), 8));
  }
  return cases;
}

// One or two of each kind of operand and store, by fragments, by octets, by elements.
std::vector<Case> small_placed_cases() {
  const Gemm several{.batch = 3, .m = 70, .n = 40, .k = 64, .transpose_b = true},
      odd{.batch = 2, .m = 33, .n = 27, .k = 24}, one{.m = 147, .n = 72, .k = 72, .transpose_b = true};
  const Conv2d image = conv_of(2, 9, 11, 16, 72), planes = conv_of(2, 7, 9, 16, 24, Layout::nchw),
               block = conv_of(2, 10, 12, 16, 64);
  std::uint64_t seed = 90;
  std::vector<Case> cases;
  const auto add = [&](const char* text, const char* plan, std::optional<Gemm> product, const Conv2d& conv,
                       DType type = DType::bf16) {
    cases.push_back(placed(text, plan, product, conv, type, seed++, 8));
  };
  add(texts[0], "", several, {});
  add(texts[0], "swap=on tile=64x64", one, {}, DType::f16);
  add(texts[1], "", {}, image);
  add(texts[1], "family=plain tile=64x64", {}, planes);
  add(texts[2], "", {}, image, DType::f16);
  add(texts[3], "order=cooperative buffers=1", several, {});  // seeded_faults.py knows it by this plan
  add(texts[3], "", odd, {}, DType::f16);
  add(texts[4], "", {}, image);
  add(texts[5], "", several, {});
  add(texts[6], "", {}, planes);
  add(texts[7], "", several, {});
  add(texts[8], "", {}, image);
  add(texts[9], "fetch=1", several, {});
  add(texts[10], "", one, {}, DType::f16);
  add(texts[11], "", {}, image);
  add(texts[11], "family=plain tile=64x64", odd, {}, DType::f16);
  add(texts[12], "", {}, image);
  add(norms[0], "mode=resident", {}, block);
  add(norms[1], "mode=streamed", {}, block);
  add(norms[2], "", {}, block, DType::f16);
  add(norms[3], "", {}, block);
  add(norms[4], "", {}, block);
  return cases;
}

}  // namespace unisono::gpu
