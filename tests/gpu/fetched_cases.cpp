// Operands [m,n] that TMA brings into the staging buffers.

#include <fmt/format.h>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr const char* one = "operand r[m,n] : bf16\nstore silu(acc + bias[n]) + r as y : bf16";
constexpr const char* three =
    "operand r1[m,n] : bf16\noperand r2[m,n] : f16\noperand r3[m,n] : bf16\nstore acc + r1 * r2 + r3 as y : bf16";
constexpr const char* six =
    "operand r1[m,n] : bf16\noperand r2[m,n] : f16\noperand r3[m,n] : bf16\noperand r4[m,n] : bf16\n"
    "operand r5[m,n] : f16\noperand r6[m,n] : bf16\nh = acc + r1 * r2\nstore h : bf16\n"
    "store h - r3 * r4 + bias[n] + r5 * r6 as y : bf16";
// Fetched ones among others
constexpr const char* mixed =
    "operand r1[m,n] : f32\noperand r2[m,n] : bf16\noperand keep[m,n] : bool\noperand r3[m,n] : f16\n"
    "store select(keep, acc * r2 + bias[n], r1) - r3 as y : bf16";
constexpr const char* two_stores =
    "operand r[m,n] : bf16\nh = acc + r\nstore h : bf16\nstore relu(h * s[b,n]) as y : bf16";
constexpr const char* by_pixel =
    "operand r[m,n] : bf16\nstore silu(layer_norm(acc + bias[n], scale=gamma[n])) + r as y : bf16";
constexpr const char* by_group =
    "operand r[m,n] : bf16\nstore silu(group_norm(acc + bias[n], groups=8, scale=gamma[n])) + r as y : bf16";
// Ahead of the normalisation, as a residual block has it
constexpr const char* ahead_by_pixel =
    "operand r[m,n] : bf16\nh = acc + bias[n] + r\nstore h : bf16\nstore silu(layer_norm(h, scale=gamma[n])) as y : "
    "bf16";
constexpr const char* ahead_by_group =
    "operand q[m,n] : f16\noperand r[m,n] : bf16\nh = acc * q + r\nstore h : bf16\n"
    "store silu(group_norm(h, groups=8, scale=gamma[n])) as y : bf16";
// General epilogues: a loss, of which nothing [m,n] is stored; stores of all kinds; channels
constexpr const char* loss =
    "operand target[m,n] : bf16\nz = acc + bias[n]\nstore sum(relu(z) - z * target + softplus(-abs(z))) as loss : f32";
constexpr const char* general =
    "operand r[m,n] : bf16\noperand q[m,n] : f16\nh = acc * s[m] + r\nstore h as y : bf16\nstore h - q as w : f32\n"
    "store sum(h, over=(m,n), per=b) as total : f32";
constexpr const char* by_channel =
    "operand r[m,n] : bf16\nstore acc + r as y : bf16\nstore max(acc + r, over=m) as top : f32";
// One on either side, of which the one behind is loaded
constexpr const char* both_sides =
    "operand q[m,n] : bf16\noperand r[m,n] : bf16\nh = acc + q\nstore h : bf16\n"
    "store group_norm(h, groups=8, shift=beta[n]) * r as y : bf16";

constexpr const char* orders[] = {"order=pingpong", "order=cooperative", "order=pingpong2"};
constexpr const char* plans[] = {"tile=64x64 split=off",
                                 "tile=64x64 buffers=1 split=off",
                                 "tile=128x64 load=im2col split=off",
                                 "tile=128x64 load=halo split=off",
                                 "tile=128x64 swap=on split=off",
                                 "tile=256x64 swap=on load=halo split=off",
                                 "tile=128x128 swap=on buffers=3 split=off",
                                 "tile=128x40 split=off",
                                 "tile=128x48 buffers=2 split=off",
                                 "tile=256x96 load=im2col split=off",
                                 "tile=64x160",
                                 "cluster=2x1",
                                 "cluster=1x2 tile=64x64",
                                 "split=on"};

Conv2d conv_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps,
               DType type) {
  Conv2d x{.n = n, .h = h, .w = w, .c = c, .k = k, .r = taps, .s = taps};
  x.pad = {taps / 2, taps / 2, taps / 2, taps / 2};
  x.dtype_x = x.dtype_w = type;
  return x;
}

Conv2d in_planes(Conv2d conv) {
  conv.layout = Layout::nchw;
  return conv;
}

Case case_of(const Conv2d& conv, std::string text, std::string plan) {
  Case c{.name = "fetched", .conv = conv, .text = std::move(text), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  return c;
}

}  // namespace

// Small ones, with several tiles for each of 24 blocks
std::vector<Case> small_fetched_cases() {
  const Conv2d odd = conv_of(2, 40, 33, 16, 128, 1, DType::bf16), edges = conv_of(2, 17, 19, 64, 160, 3, DType::bf16);
  std::vector<Case> cases{case_of(odd, one, "fetch=1 tile=64x64 load=im2col split=off swap=on"),
                          case_of(edges, one, "fetch=1 tile=128x160 load=halo split=off buffers=3"),
                          case_of(odd, three, "fetch=3 tile=64x32 split=off order=pingpong"),
                          case_of(odd, six, "fetch=6 tile=64x32 split=off order=pingpong swap=off"),
                          case_of(edges, six, "fetch=5 tile=128x64 split=off order=cooperative swap=on load=halo"),
                          case_of(edges, mixed, "fetch=2 tile=128x40 split=off order=cooperative"),
                          case_of(edges, two_stores, "fetch=1 tile=128x64 order=pingpong2 load=halo"),
                          case_of(edges, both_sides, "fetch=1 mode=resident tile=128x64 swap=on load=halo"),
                          case_of(edges, ahead_by_group, "fetch=2 mode=resident tile=128x64 buffers=2 swap=on"),
                          case_of(edges, ahead_by_pixel, "fetch=1 tile=64x160 split=on buffers=1"),
                          case_of(edges, loss, "fetch=1 tile=128x160 buffers=2 mode=general"),
                          case_of(odd, general, "fetch=2 tile=64x64 mode=general order=pingpong"),
                          case_of(in_planes(conv_of(2, 16, 24, 64, 128, 1, DType::bf16)), ahead_by_group,
                                  "fetch=1 mode=resident tile=128x128 buffers=1 swap=on load=im2col")};
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].seed = 1700 + i;
  return cases;
}

// Every order, plan and kind of operand; enough tiles that a block has several of them
std::vector<Case> fetched_cases(std::uint64_t seed) {
  Random random(seed * 91 + 3);
  const Conv2d odd = conv_of(2, 40, 33, 16, 128, 1, DType::bf16), edges = conv_of(2, 17, 19, 64, 160, 3, DType::bf16);
  std::vector<Case> cases = small_fetched_cases();
  const auto add = [&](Case c, int fetch) {
    c.options.plan += fmt::format(" fetch={}", fetch);
    c.seed = seed + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  };
  add(case_of(odd, one, "tile=64x64 load=im2col split=off buffers=1"), 1);
  add(case_of(odd, one, "tile=256x64 load=halo split=off swap=on buffers=2"), 1);
  for (const char* plan : {"order=pingpong2", "tile=256x64 swap=on", "tile=128x128 order=cooperative"})
    for (const int fetch : {4, 5, 6}) add(case_of(edges, six, plan), fetch);
  add(case_of(odd, three, "tile=64x64 split=off order=pingpong swap=on"), 2);
  add(case_of(edges, mixed, "tile=64x64 split=off swap=on"), 1);
  add(case_of(edges, one, "split=on"), 1);
  add(case_of(edges, by_pixel, "tile=64x160 load=im2col"), 1);
  add(case_of(edges, by_group, "mode=resident tile=128x160"), 1);
  add(case_of(edges, ahead_by_group, "mode=resident tile=128x160"), 1);
  add(case_of(edges, ahead_by_pixel, "tile=128x160 load=halo buffers=1"), 1);
  add(case_of(odd, by_channel, "tile=64x32 mode=general order=pingpong"), 1);
  for (const char* text : {one, three, mixed, two_stores, by_pixel, by_group, ahead_by_pixel, ahead_by_group,
                           both_sides, loss, general, by_channel})
    for (const char* order : orders)
      for (const char* plan : plans) {
        if (random.chance(0.6)) continue;
        const DType type = random.chance(0.3) ? DType::f16 : DType::bf16;
        const std::int64_t taps = random.chance(0.5) ? 1 : 3,
                           channels = random.chance(0.5) ? 8 * random.between(8, 40) : 64 * random.between(1, 4);
        const bool planes = random.chance(0.3);
        Conv2d shape = conv_of(random.between(1, 6), random.between(15, 70), random.between(15, 70),
                               8 * random.between(2, 10), channels, taps, type);
        if (planes) shape.w = 8 * random.between(2, 8), shape = in_planes(shape);
        const int most = text == three ? 3 : text == mixed || text == ahead_by_group || text == general ? 2 : 1;
        add(case_of(shape, text, fmt::format("{} {}", order, plan)), random.between(1, most));
      }
  for (const char* plan : {"", "tile=128x128", "tile=256x64 order=cooperative swap=on", "cluster=2x2 tile=64x64"})
    for (const bool transposed : {false, true}) {
      const Gemm product{.batch = random.between(1, 3),
                         .m = random.between(60, 900),
                         .n = 8 * random.between(9, 90),
                         .k = 8 * random.between(8, 60),
                         .transpose_b = transposed,
                         .dtype_a = DType::bf16,
                         .dtype_b = DType::bf16};
      Case c = case_of(plan::as_convolution(product).conv, three, plan);
      c.product = product;
      add(c, 3), add(c, 1);
    }
  return cases;
}

}  // namespace unisono::gpu
