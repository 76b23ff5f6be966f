// Images of few channels, by im2col in shared memory.

#include <fmt/format.h>

#include <array>
#include <numeric>

#include "gpu/case.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr std::array texts{
    "store acc as y : {T}",
    "store relu(acc + bias[n]) as y : {T}",
    "operand r[m,n] : {T}\nstore silu(acc * s[b,n] + bias[n]) + r as y : {T}",
    "h = acc + bias[n]\nstore h : {T}\nstore tanh(h) as y : {T}",
    "h = acc + bias[n]\nstore silu(group_norm(h, groups={G}, scale=gamma[n], shift=beta[n])) as y : {T}",
    "operand r[m,n] : {T}\nstore silu(instance_norm(acc + r, scale=gamma[n], shift=beta[n])) as y : {T}",
    "store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n]) as y : {T}",
    "store softmax(acc + bias[n], over=n) as y : {T}",
    "p = relu(acc + bias[n])\nstore p as y : {T}\nstore sum(p, over=m) as total : f32"};

constexpr std::array plans{"",
                           "order=cooperative",
                           "order=pingpong2",
                           "order=pingpong",
                           "swap=on",
                           "depth=32",
                           "stages=2+2",
                           "stages=3+5 depth=32",
                           "mode=streamed",
                           "mode=resident swap=on",
                           "mode=resident order=cooperative",
                           "buffers=1"};

// Lines of a multiple of 16 bytes, unless pixels are that already
std::int64_t width_of(std::int64_t least, std::int64_t channels) {
  const std::int64_t step = channels % 8 == 0 ? 1 : 8 / std::gcd(8, channels);
  return (least + step - 1) / step * step;
}

Conv2d shape_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t r,
                std::int64_t s, std::int64_t stride) {
  Conv2d x{.n = n, .h = h, .w = width_of(w, c), .c = c, .k = k, .r = r, .s = s};
  x.stride = {stride, stride};
  x.pad = {r / 2, s / 2, r / 2, s / 2};
  return x;
}

Case case_of(const Conv2d& conv, std::size_t text, const std::string& plan, DType type = DType::bf16) {
  Case c{.name = "im2col in shared memory", .conv = conv, .text = filled(texts.at(text), type, 1), .options = {}};
  c.conv.dtype_x = c.conv.dtype_w = type;
  c.options.device = Device::cuda;
  c.options.plan = "load=im2col_smem" + (plan.empty() ? "" : " " + plan);
  return c;
}

Conv2d draw(Random& random, std::size_t text) {
  const std::int64_t channels = random.one_of({1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 12, 16, 16, 20, 24, 32});
  const bool stem = channels <= 4;
  const std::int64_t r = stem ? random.between(1, 7) : random.between(1, 4), s = stem ? random.between(2, 7) : 3;
  Conv2d c = shape_of(random.between(1, 4), random.between(5, 60), random.between(5, 60), channels,
                      8 * random.between(1, 16), r, s, random.one_of({1, 1, 2, 2, 3}));
  if (random.chance(0.2)) c.stride[0] = random.between(1, 4);
  if (random.chance(0.15) && text < 4) c.k = random.between(1, 90);
  if (random.chance(0.15)) c.dilation[0] = random.between(2, 3);
  if (random.chance(0.3))
    for (std::size_t side = 0; side < 4; ++side) c.pad[side] = random.between(0, 5);
  c.h = std::max(c.h, (c.r - 1) * c.dilation[0] + 1);
  return c;
}

}  // namespace

// Small ones, of every width of loads from shared memory, with several tiles for some of 24 blocks
std::vector<Case> small_im2col_smem_cases() {
  std::vector<Case> cases{
      case_of(shape_of(2, 41, 40, 3, 64, 7, 7, 2), 1, "swap=on tile=256x64"),       // 4 bytes, a chunk half valid
      case_of(shape_of(3, 37, 50, 3, 32, 3, 3, 1), 0, "order=pingpong"),            // two copies
      case_of(shape_of(2, 28, 28, 1, 16, 5, 5, 1), 3, "stages=2+2"),                // a chunk a line
      case_of(shape_of(2, 31, 44, 4, 24, 3, 3, 1), 2, "depth=32"),                  // 8 bytes
      case_of(shape_of(2, 25, 33, 16, 32, 3, 3, 1), 1, "tile=128x32 depth=32"),     // 16 bytes, two chunks turned
      case_of(shape_of(2, 19, 21, 32, 40, 3, 3, 1), 1, "order=cooperative"),        // four
      case_of(shape_of(1, 33, 47, 8, 64, 3, 3, 2), 4, "mode=resident swap=on"),     // neighbours two pixels apart
      case_of(shape_of(2, 50, 56, 3, 64, 3, 3, 2), 5, "mode=streamed tile=64x64"),  // one warp does im2col
      case_of(shape_of(2, 17, 24, 5, 17, 3, 3, 1), 1, "tile=128x24"),               // plain stores
      case_of(shape_of(2, 20, 24, 3, 48, 3, 3, 1), 7, "")};                         // rows' channels
  cases.push_back(case_of(shape_of(1, 21, 19, 16, 32, 3, 3, 1), 0, "tile=128x32 depth=64"));  // boxes of pixels
  cases.back().gaps.image = 24;
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].seed = 2300 + i;
  return cases;
}

std::vector<Case> im2col_smem_cases(std::uint64_t seed) {
  Random random(seed * 57 + 11);
  std::vector<Case> cases = small_im2col_smem_cases();
  const auto add = [&](Case c) {
    c.seed = seed + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  };
  for (std::size_t i = 0; i < 220; ++i) {
    const std::size_t text = i % texts.size();
    const DType type = i % 4 == 0 ? DType::f16 : DType::bf16;
    add(case_of(draw(random, text), text, plans[i * 5 / 2 % plans.size()], type));
  }
  // Images that each block has many tiles of, as large as first layers are
  add(case_of(shape_of(8, 224, 224, 3, 64, 7, 7, 2), 1, ""));
  add(case_of(shape_of(8, 224, 224, 3, 64, 7, 7, 2), 1, "swap=off tile=128x64"));
  add(case_of(shape_of(2, 256, 256, 16, 32, 3, 3, 1), 1, ""));
  add(case_of(shape_of(4, 256, 256, 3, 64, 3, 3, 1), 4, "mode=streamed swap=on"));
  add(case_of(shape_of(4, 128, 128, 3, 64, 3, 3, 1), 4, "mode=resident"));
  for (const bool pooled : {true, false}) {
    plan::Resampled resampled;
    if (pooled)
      resampled.pooled = "pooled";
    else
      resampled.upsampled = "upsampled";
    add(resampled_case(case_of(shape_of(2, 40, 48, 3, 64, 7, 7, 2), 1, "").conv, filled(texts[1], DType::bf16, 1),
                       "load=im2col_smem", resampled));
  }
  for (const std::int64_t channels : {8, 16, 24}) {
    Case apart = case_of(shape_of(3, 37, 29, channels, 48, 3, 3, channels / 8), 2, "");
    apart.gaps.image = 8;
    add(std::move(apart));
  }
  return cases;
}

}  // namespace unisono::gpu
