// Channels first: images and filters that the launch converts, or planes that are multiplied as they lie; results, and
// operands like them, in planes. Widths and channels of every kind, tiles that end within an image row, every mode.

#include <fmt/format.h>

#include <array>

#include "gpu/case.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

struct Kind {
  const char* text;  // {T}: dtype, {G}: groups
  std::array<const char*, 6> plans;
};

constexpr std::array kinds{
    Kind{"store acc as y : {T}",
         {"load=im2col", "load=halo tile=128x64 swap=on", "load=im2col cluster=2x1",
          "load=halo cluster=1x2 tile=128x32", "load=im2col split=on tile=64x32", "load=im2col depth=128 tile=128x64"}},
    Kind{"store silu(acc + bias[n]) as y : {T}",
         {"", "load=halo order=cooperative", "load=im2col tile=128x64 swap=on", "load=halo stationary=on tile=128x16",
          "load=im2col tile=256x64 order=cooperative", "load=gather"}},
    Kind{"operand r[m,n] : {T}\nh = acc * s[b,n] + bias[n] + r\nstore h : {T}\nstore tanh(h) as y : {T}",
         {"load=im2col", "load=halo tile=128x64 swap=on", "load=im2col order=cooperative tile=128x80", "load=halo",
          "load=im2col tile=64x64", ""}},
    Kind{"h = acc + bias[n]\nstore silu(group_norm(h, groups={G}, scale=gamma[n], shift=beta[n])) as y : {T}",
         {"mode=resident", "mode=streamed load=im2col tile=128x64", "mode=streamed load=halo tile=128x64 swap=on",
          "mode=streamed load=im2col tile=64x32 order=cooperative", "mode=resident swap=on tile=128x64",
          "mode=resident split=on tile=64x64"}},
    Kind{"operand r[m,n] : {T}\nh = acc + bias[n]\nstore h : {T}\nstore relu(group_norm(h, groups={G}, "
         "scale=gamma[n], shift=beta[n]) + r) as y : {T}",
         {"mode=resident load=im2col", "mode=streamed load=im2col tile=128x32",
          "mode=streamed load=halo tile=256x64 swap=on", "mode=resident load=halo",
          "mode=streamed load=halo tile=128x64", "mode=streamed load=im2col tile=64x64"}},
    Kind{"y = silu(group_norm(acc, groups={G}, scale=gamma[n], shift=beta[n]))\nstore y : {T}\nstore y * s[b,n] as z : "
         "{T}",
         {"mode=resident load=im2col", "mode=streamed load=im2col tile=128x64", "mode=streamed load=halo tile=128x48",
          "mode=resident order=cooperative", "mode=streamed load=im2col tile=128x64 swap=on", "mode=streamed"}},
    Kind{"operand r[m,n]\nstore layer_norm(acc + r, scale=gamma[n], shift=beta[n]) as y : {T}",
         {"", "", "", "", "", ""}},
    Kind{"h = acc + bias[n]\nstore h as y\nstore relu(h) as z : {T}\nstore max(h, over=n) as top",
         {"", "load=im2col", "load=halo", "tile=64x64", "", ""}}};

void fill(Case& c, const Kind& kind, int i, Random& random) {
  const DType type = i % 3 == 0 ? DType::f16 : DType::bf16;
  std::int64_t groups = 1;
  for (const std::int64_t g : {2, 4, 3, 5})
    if (c.conv.k % g == 0 && random.chance(0.7)) groups = g;
  c.text = filled(kind.text, type, groups);
  c.conv.layout = Layout::nchw;
  c.conv.dtype_x = c.conv.dtype_w = type;
  c.options.device = Device::cuda;
  c.options.plan = kind.plans[static_cast<std::size_t>(i / static_cast<int>(kinds.size())) % kind.plans.size()];
  // Balanced, nearly all of a small image is ahead, and nothing would be converted beside the tiles
  if (c.conv.r * c.conv.s > 1 && c.conv.groups == 1 && c.options.plan.find("load=gather") == std::string::npos)
    c.options.plan += std::array{" ahead=first", " ahead=balanced", " ahead=all"}[static_cast<std::size_t>(i) / 48 % 3];
  c.seed = random.next();
}

Conv2d draw(int i, Random& random) {
  const bool eights = i % 3 > 0;  // of pixels
  Conv2d c{.n = random.between(1, 4),
           .h = random.between(3, 20),
           .w = eights ? 8 * random.between(1, 3) : random.between(3, 21),
           .c = random.chance(0.6) ? 8 * random.between(1, 24) : random.between(1, 150),
           .k = random.chance(0.7) ? 16 * random.between(1, 10) : random.between(3, 120)};
  c.r = random.one_of({1, 3, 3, 3, 5}), c.s = random.chance(0.2) ? 1 : c.r;
  if (c.r == 1 && eights) c.h = 8 * random.between(1, 2);
  const std::int64_t stride = random.chance(0.2) ? 2 : 1, dilation = random.chance(0.15) ? 2 : 1;
  c.stride = {stride, stride}, c.dilation = {dilation, 1};
  c.pad = {c.r / 2 * dilation, c.s / 2, c.r / 2 * dilation, c.s / 2};
  if (random.chance(0.1)) c.groups = 2, c.c = 2 * random.between(1, 40), c.k = 2 * random.between(1, 40);
  return c;
}

}  // namespace

std::vector<Case> planes_cases(std::uint64_t seed) {
  Random random(seed + 53);
  std::vector<Case> cases;
  for (int i = 0; i < 192; ++i) {
    Case c{.name = fmt::format("planes {}", i), .conv = draw(i, random), .text = {}, .options = {}};
    fill(c, kinds[static_cast<std::size_t>(i) % kinds.size()], i, random);
    if (!is_served(c)) c.options.plan.clear();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

/// Converted in bands and blocks that end within a tile; planes by TMA and by elements.
std::vector<Case> small_planes_cases() {
  struct Small {
    int kind, plan;
    Conv2d conv;
  };
  const Pair two = 2;
  const Margins one = 1;
  const std::array list{
      Small{0, 0, {.n = 2, .h = 5, .w = 16, .c = 24, .k = 48, .r = 3, .s = 3, .pad = one}},
      Small{1, 2, {.n = 1, .h = 9, .w = 8, .c = 72, .k = 64, .r = 3, .s = 3, .pad = one}},
      Small{2, 1, {.n = 2, .h = 11, .w = 8, .c = 13, .k = 64, .r = 3, .s = 3, .pad = one}},
      Small{3, 1, {.n = 3, .h = 16, .w = 24, .c = 16, .k = 64, .r = 3, .s = 3, .pad = one}},
      Small{3, 2, {.n = 2, .h = 24, .w = 16, .c = 8, .k = 64, .r = 3, .s = 3, .pad = one}},
      Small{3, 0, {.n = 2, .h = 7, .w = 7, .c = 40, .k = 12, .r = 3, .s = 3, .stride = two, .pad = one}},
      Small{4, 1, {.n = 2, .h = 12, .w = 16, .c = 16, .k = 96, .r = 1, .s = 1}},
      Small{5, 0, {.n = 2, .h = 4, .w = 10, .c = 11, .k = 30, .r = 1, .s = 1}},
      Small{5, 4, {.n = 3, .h = 17, .w = 24, .c = 8, .k = 144, .r = 3, .s = 3, .pad = one}},
      Small{7, 1, {.n = 1, .h = 6, .w = 8, .c = 16, .k = 40, .r = 1, .s = 1}}};
  Random random(7);
  std::vector<Case> cases;
  for (const Small& s : list) {
    Case c{.name = fmt::format("planes {}", cases.size()), .conv = s.conv, .text = {}, .options = {}};
    fill(c, kinds[static_cast<std::size_t>(s.kind)], s.kind + static_cast<int>(kinds.size()) * s.plan, random);
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
