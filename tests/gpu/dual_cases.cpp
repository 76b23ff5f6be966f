// Dual products: two right operands of one A, and epilogues that read both accumulators.

#include <fmt/format.h>

#include <array>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

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

Case dual(const char* text, const char* plan, const Gemm& product, DType type, std::uint64_t seed) {
  Case c{.name = "dual", .conv = {}, .text = filled(text, type == DType::f32 ? DType::bf16 : type), .options = {}};
  c.product = product;
  c.product->dtype_a = c.product->dtype_b = type, c.product->products = 2;
  c.conv = plan::as_convolution(*c.product).conv;
  c.options.device = Device::cuda, c.options.plan = plan;
  c.seed = seed;
  return c;
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
  return cases;
}

}  // namespace unisono::gpu
