// Transposed convolutions of stride 1, the gradients of convolutions' inputs, by their filters' taps in reverse.

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
         {"load=im2col", "load=halo", "load=im2col cluster=2x2 tile=128x64", "load=halo stationary=on",
          "load=im2col depth=128", "load=halo depth=128", "load=im2col stationary=on tile=64x64", "split=on"}},
    Kind{"operand r[m,n] : {T}\nstore relu(acc * s[b,n] + bias[n]) + r as y : {T}",
         {"load=halo cluster=2x1", "swap=on tile=128x64 load=im2col", "load=halo order=pingpong2 tile=128x64",
          "load=im2col depth=32", "swap=on tile=256x64 load=halo depth=128", "fetch=1 tile=128x96",
          "load=halo split=on", "cluster=1x2 tile=64x40"}},
    Kind{"h = acc + bias[n]\nstore h : {T}\nstore tanh(h) as y : {T}",
         {"", "swap=on tile=128x64", "tile=256x64", "load=im2col order=cooperative", "load=im2col tile=64x160",
          "load=halo tile=128x160", "tile=128x72", "load=im2col cluster=2x1"}},
    Kind{"operand r[m,n]\nh = acc + bias[n]\nstore h : {T}\nstore silu(group_norm(h, groups=4, scale=gamma[n], "
         "shift=beta[n])) + r as y : {T}",
         {"mode=streamed load=halo", "mode=resident load=halo", "mode=streamed swap=on tile=128x64",
          "mode=resident order=cooperative load=im2col", "mode=streamed load=im2col", "mode=resident split=on",
          "mode=resident swap=on tile=256x64", "mode=resident cluster=1x2 tile=64x32"}},
    Kind{"operand r[m,n] : {T}\nh = acc + bias[n]\nstore h : {T}\nstore layer_norm(h, scale=gamma[n], shift=beta[n]) + "
         "r as y : {T}",
         {"load=halo", "load=im2col", "tile=64x32", "order=cooperative", "depth=128", "split=on", "", ""}},
    Kind{"h = acc * s[m] + bias[n]\nstore h as y : f32\nstore max(h, over=m) as top : f32\n"
         "store variance(h, over=(m,n), per=b, groups=2) as var : f32\nstore sum(silu(h)) as total : f32",
         {"load=halo", "load=im2col", "cluster=1x2 tile=64x32", "depth=128 tile=128x64", "", "", "", ""}},
    Kind{"operand v[m,n] : {T}\nx = group_norm(v, groups=2)\ndz = acc * sigmoid(x)\n"
         "store dz - mean(dz, over=(m,n), per=b, groups=2) - x * mean(dz * x, over=(m,n), per=b, groups=2) as y : {T}\n"
         "store sum(dz, over=m) as dbeta : f32",
         {"", "load=halo", "load=im2col", "order=cooperative", "tile=64x32", "", "", ""}},
    Kind{"store batch_norm(acc, scale=gamma[n], shift=beta[n]) as y : {T}",
         {"load=im2col", "mode=streamed load=im2col", "", "", "swap=on tile=128x64", "", "", ""}}};

/// Padding below, at and above what the filter reaches along an axis, so that the convolution's is positive, zero and
/// negative; never all pixels.
void draw_padding(ConvTranspose2d& t, Random& random) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t reach = ((axis == 0 ? t.r : t.s) - 1) * t.dilation[axis], in = axis == 0 ? t.h : t.w;
    if (random.chance(0.4)) {
      t.pad[axis] = t.pad[axis + 2] = reach / 2;  // the gradient of a convolution of as many pixels
      continue;
    }
    for (const std::size_t side : {axis, axis + 2})
      t.pad[side] = random.between(0, static_cast<int>(reach) + random.between(0, 2));
    while (in + reach - t.pad[axis] - t.pad[axis + 2] < 1) t.pad[axis + 2] > 0 ? --t.pad[axis + 2] : --t.pad[axis];
    if (t.dilation[axis] > 1) t.output_pad[axis] = random.between(0, 1);
  }
}

ConvTranspose2d draw(int i, Random& random) {
  ConvTranspose2d t;
  t.n = random.between(1, 3), t.h = random.between(1, 21), t.w = random.between(1, 21);
  t.c = 8 * random.between(1, 25), t.k = 8 * random.between(1, 25);
  t.r = random.one_of({1, 3, 3, 3, 5, 2}), t.s = random.chance(0.7) ? t.r : random.between(1, 7);
  if (i % 4 == 1) t.dilation = {random.between(1, 3), random.between(1, 3)};
  draw_padding(t, random);
  return t;
}

void fill(Case& c, DType type, std::string text, std::string plan) {
  c.transposed->dtype_x = c.transposed->dtype_w = type;
  c.text = filled(std::move(text), type);
  c.conv = plan::as_convolution(*c.transposed).conv;
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
}

bool runs_flipped(const Case& c) {
  return !conv_config(lower::lower(c.contraction(), graph_of(c), c.options, planning_device()).value().plan())
              .gathered();
}

}  // namespace

std::vector<Case> flipped_cases(std::uint64_t seed) {
  Random random(seed + 47);
  std::vector<Case> cases;
  for (int i = 0; i < 160; ++i) {
    const Kind& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
    Case c{.name = fmt::format("flipped {}", i), .conv = {}, .text = "", .options = {}};
    c.transposed = draw(i / 8 + i, random);
    if (extents(*c.transposed).rows() * c.transposed->k > 300000) c.transposed->k = 32;
    fill(c, i % 5 == 0 ? DType::f16 : DType::bf16, kind.text, kind.plans[static_cast<std::size_t>(i / 8) % 8]);
    c.seed = random.next();
    if (!is_served(c)) c.options.plan.clear();
    if (is_served(c) && runs_flipped(c)) cases.push_back(std::move(c));
  }
  return cases;
}

/// Taps that differ, by every way of loading them; channels that fill neither a box of columns nor a k-step.
std::vector<Case> small_flipped_cases() {
  std::vector<Case> cases;
  for (const char* plan : {"load=halo tile=128x104", "load=im2col tile=128x104", "load=im2col depth=128 tile=64x104",
                           "load=halo depth=128 swap=on tile=128x64", "load=im2col stationary=on tile=64x56"}) {
    Case c{.name = "flipped", .conv = {}, .text = "", .options = {}};
    c.transposed = {
        .n = 2, .h = 9, .w = 11, .c = 72, .k = 104, .r = 3, .s = 2, .pad = {1, 0, 3, 1}, .dilation = {1, 2}};
    fill(c, DType::bf16, "operand r[m,n] : {T}\nstore silu(acc + bias[n]) * r as y : {T}", plan);
    c.seed = 70 + cases.size();
    cases.push_back(std::move(c));
  }
  // One tap, of images whose operands [b,n] differ
  Case c{.name = "flipped", .conv = {}, .text = "", .options = {}};
  c.transposed = {.n = 3, .h = 9, .w = 11, .c = 72, .k = 104};
  fill(c, DType::bf16, "store silu(acc + bias[n]) * s[b,n] as y : {T}", "load=im2col depth=128 tile=128x96");
  cases.push_back(std::move(c));
  return cases;
}

}  // namespace unisono::gpu
