// Convolutions of groups whose tiles are several of them.

#include <fmt/format.h>

#include "families/sm90/gathering.hpp"
#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr const char* bare = "store acc as y : {}";
constexpr const char* residual = "store relu(acc + bias[n] + r[m,n]) as y : {}";
constexpr const char* block =
    "store silu(group_norm(acc + bias[n], groups={1}, scale=gamma[n], shift=beta[n])) as y : {0}";
constexpr const char* rows = "store layer_norm(acc + bias[n]) as y : {}";
constexpr const char* sums = "store acc as y : {}\nstore sum(acc, over=m, per=b) as total : f32";

struct Width {
  std::int64_t groups, channels, filters;  // of a group
};

Case group_case(Conv2d conv, Width w, const char* text, std::string plan) {
  conv.groups = w.groups, conv.c = w.groups * w.channels, conv.k = w.groups * w.filters;
  Case c{.name = "groups", .conv = conv, .text = {}, .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = "family=sm90_conv " + std::move(plan);
  c.text = fmt::format(fmt::runtime(text), to_string(conv.dtype_x), conv.k % 4 == 0 ? 4 : 1);
  return c;
}

Conv2d conv(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t taps, std::int64_t stride = 1,
            DType type = DType::bf16) {
  const std::int64_t pad = taps / 2;
  Conv2d x{.n = n, .h = h, .w = w, .r = taps, .s = taps, .stride = {stride, stride}, .pad = {pad, pad, pad, pad}};
  x.dtype_x = x.dtype_w = type;
  return x;
}

/// The same of the transposed convolution, whose taps are read in reverse.
Case transposed(Case c) {
  c.transposed = ConvTranspose2d{.n = c.conv.n,
                                 .h = c.conv.h,
                                 .w = c.conv.w,
                                 .c = c.conv.c,
                                 .k = c.conv.k,
                                 .r = c.conv.r,
                                 .s = c.conv.s,
                                 .pad = c.conv.pad,
                                 .dilation = c.conv.dilation,
                                 .groups = c.conv.groups,
                                 .dtype_x = c.conv.dtype_x,
                                 .dtype_w = c.conv.dtype_w};
  c.conv = plan::as_convolution(*c.transposed).conv;
  return c;
}

}  // namespace

// Groups of 8 channels and vectors, of 4 and less without; more tiles than SMs, so that filters are used again
std::vector<Case> small_group_cases() {
  return {group_case(conv(3, 17, 19, 3), {16, 8, 8}, bare, "load=halo tile=64x64"),
          group_case(conv(5, 23, 29, 3), {32, 4, 4}, block, "load=halo mode=resident"),
          group_case(conv(2, 29, 31, 3, 2), {5, 16, 24}, residual, "load=im2col order=cooperative"),
          group_case(conv(9, 21, 23, 3), {20, 2, 4}, block, "load=halo mode=streamed"),
          group_case(conv(3, 13, 11, 1), {6, 32, 32}, residual, "load=im2col swap=on tile=128x64"),
          group_case(conv(3, 15, 9, 5), {3, 24, 16}, bare, "load=halo"),
          group_case(conv(2, 9, 13, 1), {8, 8, 8}, bare, "load=im2col tile=64x16"),  // fewer filters than threads
          transposed(group_case(conv(2, 11, 13, 3), {12, 8, 4}, residual, "load=halo tile=64x32")),
          transposed(group_case(conv(2, 11, 13, 3), {12, 2, 4}, block, "load=im2col"))};
}

std::vector<Case> group_cases(std::uint64_t seed) {
  constexpr const char* plans[] = {"load=halo",
                                   "load=im2col",
                                   "load=halo swap=on tile=128x64",
                                   "load=im2col swap=on tile=128x64 order=pingpong2",
                                   "load=im2col order=cooperative",
                                   "load=halo order=pingpong2",
                                   "load=halo mode=streamed",
                                   "load=im2col mode=resident",
                                   "load=im2col mode=streamed",
                                   ""};
  constexpr const char* texts[] = {bare, residual, block, rows, sums};
  Random random(seed * 149 + 7);
  std::vector<Case> cases = small_group_cases();
  for (int tries = 0; cases.size() < 72 && tries < 6000; ++tries) {
    const Width w{random.between(2, 40), random.one_of({1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 40, 64}),
                  random.one_of({1, 2, 4, 7, 8, 16, 20, 32, 64})};
    Conv2d x = conv(random.between(1, 5), random.between(5, 60), random.between(5, 60), random.one_of({1, 3, 3, 5}),
                    random.between(1, 2), random.chance(0.5) ? DType::bf16 : DType::f16);
    if (random.chance(0.2)) x.dilation = {2, 1};
    Case c = group_case(x, w, texts[random.between(0, 4)], plans[random.between(0, std::size(plans) - 1)]);
    c.seed = seed + cases.size();
    if (families::sm90::beyond_group_tiles(c.conv)) continue;
    if (x.stride == Pair(1) && random.chance(0.4)) c = transposed(std::move(c));
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
