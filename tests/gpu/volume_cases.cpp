// Convolutions of volumes, by halo tiles of a plane and by im2col tiles, with every kind of epilogue.

#include <fmt/format.h>

#include <array>

#include "gpu/case.hpp"
#include "lower/lower.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

struct VolumeKind {
  const char* text;  // {T}: dtype
  std::array<const char*, 4> plans;
};

constexpr std::array volume_kinds{
    VolumeKind{"store acc as y : {T}", {"", "order=cooperative", "stationary=on tile=64x32", "cluster=2x1 tile=64x64"}},
    VolumeKind{"operand r[m,n] : {T}\nstore relu(acc * s[b,n] + bias[n]) + r as y : {T}",
               {"", "swap=on tile=128x64", "split=on", "fetch=1 tile=128x96 order=pingpong2"}},
    VolumeKind{"h = acc + bias[n]\nstore h : {T}\nstore tanh(h) as y : {T}",
               {"", "depth=128", "tile=256x64", "depth=32"}},
    VolumeKind{"operand r[m,n] : {T}\nh = acc + bias[n]\nstore silu(group_norm(h, groups=4, scale=gamma[n], "
               "shift=beta[n])) + r as y : {T}",
               {"mode=streamed", "mode=resident", "mode=streamed swap=on tile=128x64", "mode=resident fetch=1"}},
    VolumeKind{"n = instance_norm(acc, scale=gamma[n], shift=beta[n])\nstore silu(n) as y : {T}",
               {"mode=resident split=on", "mode=streamed tile=64x64", "mode=resident cluster=2x1 tile=64x32",
                "mode=streamed raster=channels"}},
    VolumeKind{"h = acc + bias[n]\nstore silu(rms_norm(h, scale=gamma[n])) as y : {T}",
               {"", "order=cooperative", "tile=64x64", "cluster=1x2 tile=64x64"}},
    VolumeKind{"h = acc * s[m] + bias[n]\nstore h as y : f32\nstore max(h, over=m) as top : f32\n"
               "store variance(h, over=(m,n), per=b, groups=2) as var : f32\nstore sum(silu(h)) as total : f32",
               {"", "cluster=1x2 tile=64x32", "", "tile=128x64"}},
    VolumeKind{"store softmax(acc + bias[n], over=n) as y : {T}\nstore sum(acc, over=n) as s : f32",
               {"", "tile=64x64", "", ""}}};

// Taps (T, R, S); the planes ahead of the volume
constexpr std::array<std::array<std::int64_t, 4>, 8> volume_forms{
    {{3, 3, 3, 1}, {3, 3, 3, 2}, {1, 3, 3, 0}, {3, 1, 1, 1}, {2, 3, 3, 1}, {3, 3, 1, 2}, {3, 5, 4, 1}, {1, 1, 3, 0}}};

Conv3d draw_volume(int i, Random& random) {
  const auto& [t, r, s, before] = volume_forms[static_cast<std::size_t>(i) % volume_forms.size()];
  Conv3d v{
      .n = random.between(1, 3), .d = random.between(1, 6), .h = random.between(1, 37), .w = random.between(1, 29)};
  v.c = 8 * random.between(1, 18), v.k = 8 * random.between(1, 20);
  v.t = t, v.r = r, v.s = s;
  v.before = {before, r / 2, s / 2}, v.after = {t - 1 - before, r / 2, s / 2};
  if (random.chance(0.3)) v.stride.d = 2;
  if (random.chance(0.15)) v.stride.h = random.between(1, 2), v.stride.w = random.between(1, 2);
  if (random.chance(0.2)) v.dilation = {random.between(1, 2), random.between(1, 3), random.between(1, 2)};
  if (random.chance(0.3)) v.before.h = random.between(0, 3), v.after.w = random.between(0, 3);
  const auto least = [](std::int64_t& extent, std::int64_t taps, std::int64_t dilation) {
    extent = std::max(extent, (taps - 1) * dilation + 1);
  };
  least(v.d, v.t, v.dilation.d), least(v.h, v.r, v.dilation.h), least(v.w, v.s, v.dilation.w);
  while (v.n > 1 && v.n * v.d * v.h * v.w * v.c * v.k * t * r * s > 300000000) --v.n;
  while (v.c > 8 && v.n * v.d * v.h * v.w * v.c * v.k * t * r * s > 300000000) v.c = v.c / 16 * 8;
  return v;
}

Case volume_case(const Conv3d& volume, std::string text, DType type, std::string plan, std::uint64_t seed) {
  Case c{.name = "volume", .conv = {}, .text = filled(std::move(text), type), .options = {}, .seed = seed};
  c.volume = volume;
  c.volume->dtype_x = c.volume->dtype_w = type;
  c.conv = plan::as_convolution(*c.volume).conv;
  c.options.device = Device::cuda, c.options.plan = std::move(plan);
  return c;
}

}  // namespace

std::vector<Case> volume_cases(std::uint64_t seed) {
  Random random(seed + 46);
  std::vector<Case> cases;
  for (int i = 0; i < 512; ++i) {
    const VolumeKind& kind = volume_kinds[static_cast<std::size_t>(i) % volume_kinds.size()];
    const std::string plan = kind.plans[static_cast<std::size_t>(i / 8) % 4];
    Case c = volume_case(draw_volume(i / 8 + i, random), kind.text, i % 5 == 0 ? DType::f16 : DType::bf16,
                         "load=halo " + plan, random.next());
    if (!is_served(c)) c.options.plan = plan;  // strides
    if (!is_served(c)) c.options.plan.clear();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

/// Planes whose last tile hangs over, tiles of a cluster beyond the last plane, channels of half a line, causal.
std::vector<Case> small_volume_cases() {
  const Conv3d causal{.n = 2,
                      .d = 3,
                      .h = 11,
                      .w = 10,
                      .c = 40,
                      .k = 72,
                      .t = 3,
                      .r = 3,
                      .s = 3,
                      .before = {2, 1, 1},
                      .after = {0, 1, 1}};
  Conv3d apart = causal;
  apart.r = 1, apart.stride.d = 2, apart.dilation = {2, 1, 3}, apart.before = {2, 0, 3}, apart.after = {1, 0, 2};
  std::vector<Case> cases;
  const auto add = [&](const Conv3d& v, const char* text, const char* plan) {
    cases.push_back(volume_case(v, text, DType::bf16, plan, 46 + cases.size()));
  };
  const char* sum = "operand r[m,n] : {T}\nstore acc * s[b,n] + r as y : {T}";
  const char* norm = "store silu(instance_norm(acc, scale=gamma[n], shift=beta[n])) as y : {T}";
  add(causal, sum, "load=halo cluster=2x1 tile=64x24 fetch=1");
  add(apart, sum, "load=halo depth=32 tile=64x80");
  add(causal, sum, "load=halo depth=32 stationary=on tile=64x16");
  add(causal, norm, "load=halo mode=resident tile=64x24");
  add(apart, norm, "load=halo mode=streamed depth=128 tile=64x72");
  add(causal, "store silu(rms_norm(acc, scale=gamma[n])) as y : {T}", "load=halo tile=128x72");
  Conv3d many = causal;  // tiles wait in the output
  many.n = 1, many.d = 14, many.c = 8, many.k = 64;
  add(many, norm, "load=halo mode=streamed tile=64x64 cluster=2x1");
  Conv3d far = causal;
  far.dilation.h = far.before.h = far.after.h = 17;
  add(far, sum, "load=halo tile=64x24");
  add(causal, "store max(acc, over=m) as top : f32\nstore acc as y : f32", "load=halo tile=64x72");
  return cases;
}

}  // namespace unisono::gpu
