// Convolutions whose kernels multiply what they store by a head as well.

#include <fmt/format.h>

#include "gpu/case.hpp"
#include "support/random.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr const char* before_heads[] = {"store acc as y : bf16", "store silu(acc + bias[n]) + r[m,n] as y : bf16",
                                        "h = acc + bias[n] + temb[b,n]\nstore h : bf16\nstore tanh(h) as y : bf16",
                                        "store silu(layer_norm(acc + bias[n], scale=gamma[n])) as y : bf16",
                                        "store softmax(acc + bias[n]) as y : bf16"};
constexpr const char* normalised_before_heads[] = {
    "store mish(group_norm(acc + bias[n], groups=4, scale=gamma[n], shift=beta[n])) as y : bf16",
    "h = acc + bias[n] + temb[b,n]\nstore h : bf16\nstore silu(group_norm(h, groups=4, scale=gamma[n])) as y : bf16",
    "y = group_norm(acc, groups=4)\nstore silu(y) + r[m,n] as z : bf16\nstore y : bf16"};
constexpr const char* heads[] = {"store acc + hbias[n] as heat : bf16", "store acc as heat : bf16",
                                 "store sigmoid(acc * hscale[n] + hbias[n]) as heat : bf16",
                                 "store tanh(0.5 * acc + htime[b,n]) as heat : bf16"};

constexpr const char* plans_of_heads[] = {"",
                                          "load=halo",
                                          "load=halo order=pingpong2",
                                          "load=halo swap=on tile=128x128",
                                          "load=halo swap=on tile=256x64",
                                          "load=im2col",
                                          "load=im2col swap=on tile=128x64",
                                          "load=halo cluster=2x1",
                                          "buffers=1",
                                          "split=on"};
constexpr const char* plans_of_normalised_heads[] = {"",
                                                     "mode=resident load=halo",
                                                     "mode=resident swap=on load=halo tile=256x64",
                                                     "mode=resident swap=on tile=128x128",
                                                     "mode=resident order=cooperative load=halo",
                                                     "mode=resident load=im2col buffers=1",
                                                     "mode=resident split=on",
                                                     "mode=streamed load=halo",
                                                     "mode=streamed swap=on load=halo tile=256x64",
                                                     "mode=streamed swap=on load=im2col tile=128x128",
                                                     "mode=streamed order=pingpong2 load=halo",
                                                     "mode=streamed load=im2col",
                                                     "mode=streamed cluster=2x1"};

std::string in_type(std::string text, DType type) {
  if (type == DType::bf16) return text;
  for (std::size_t at = text.find("bf16"); at != std::string::npos; at = text.find("bf16", at))
    text.replace(at, 4, "f16");
  return text;
}

Conv2d conv_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps,
               DType type = DType::bf16) {
  Conv2d x{.n = n, .h = h, .w = w, .c = c, .k = k, .r = taps, .s = taps};
  x.pad = {taps / 2, taps / 2, taps / 2, taps / 2};
  x.dtype_x = x.dtype_w = type;
  return x;
}

}  // namespace

Case head_case(const Conv2d& conv, std::string text, std::string plan, std::int64_t channels, const char* head,
               bool only) {
  Case c{.name = "head", .conv = conv, .text = in_type(std::move(text), conv.dtype_x), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  c.head = {.head = {.channels = channels,
                     .filter = "hfilter",
                     .graph = parse(in_type(head, conv.dtype_x), test_functions())},
            .only = only};
  if (c.text.find("r[m,n]") != std::string::npos) c.options.storage["r"] = conv.dtype_x;
  return c;
}

// Small ones, of every mode and way to stage, with slices of 16, 32 and 64 channels
std::vector<Case> small_head_cases() {
  std::vector<Case> cases{
      head_case(conv_of(2, 9, 11, 16, 64, 3), before_heads[2], "tile=128x64 load=halo split=off", 17, heads[0], true),
      head_case(conv_of(1, 7, 16, 32, 40, 1), before_heads[1], "tile=64x48 load=im2col split=off", 5, heads[2], false),
      head_case(conv_of(3, 5, 7, 16, 72, 3), before_heads[0], "tile=128x96 load=im2col split=off", 32, heads[3], true),
      head_case(conv_of(2, 13, 19, 16, 64, 3, DType::f16), normalised_before_heads[0],
                "swap=on load=halo mode=resident tile=256x64", 17, heads[0], true),
      head_case(conv_of(1, 17, 9, 16, 128, 3), normalised_before_heads[2],
                "swap=on load=im2col mode=resident tile=128x128", 24, heads[1], false),
      head_case(conv_of(1, 48, 87, 16, 64, 3), normalised_before_heads[1], "tile=64x64 load=halo mode=streamed", 17,
                heads[2], true),
      head_case(conv_of(2, 48, 67, 16, 64, 3), normalised_before_heads[0],
                "tile=256x64 swap=on load=halo mode=streamed", 17, heads[0], true),
      head_case(conv_of(1, 61, 32, 16, 128, 1), normalised_before_heads[0],
                "tile=128x128 swap=on load=im2col mode=streamed", 9, heads[3], false),
      head_case(conv_of(1, 5, 6, 16, 32, 3), before_heads[3], "load=halo tile=64x32 split=off", 1, heads[0], true)};
  cases[0].gaps.output = 8;
  Case product = head_case(conv_of(1, 1, 77, 96, 64, 1), before_heads[1], "tile=64x64", 13, heads[0], false);
  product.product = Gemm{.m = 77, .n = 64, .k = 96, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  product.name = "head of a product";
  cases.push_back(std::move(product));
  return cases;
}

// Heads of 1 to 32 channels, after blocks of up to 256
std::vector<Case> head_cases(std::uint64_t seed) {
  Random random(seed * 131 + 7);
  std::vector<Case> cases;
  for (int tries = 0; cases.size() < 96 && tries < 2000; ++tries) {
    const bool norm = random.chance(0.6);
    const std::int64_t k = random.chance(0.6) ? 64 * random.one_of({1, 1, 1, 2, 2, 3, 4}) : 16 * random.between(1, 12);
    const Conv2d conv =
        conv_of(random.between(1, 3), random.between(1, 70), random.between(1, 70), 8 * random.between(1, 12), k,
                random.chance(0.4) ? 1 : 3, random.chance(0.3) ? DType::f16 : DType::bf16);
    const char* text = norm ? normalised_before_heads[random.between(0, std::size(normalised_before_heads) - 1)]
                            : before_heads[random.between(0, std::size(before_heads) - 1)];
    const char* plan = norm ? plans_of_normalised_heads[random.between(0, std::size(plans_of_normalised_heads) - 1)]
                            : plans_of_heads[random.between(0, std::size(plans_of_heads) - 1)];
    Case c = head_case(conv, text, plan, random.chance(0.3) ? 17 : random.between(1, 32),
                       heads[random.between(0, std::size(heads) - 1)], random.chance(0.6));
    c.seed = seed + cases.size();
    if (random.chance(0.2)) c.gaps.output = 8 * random.between(1, 3);
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
