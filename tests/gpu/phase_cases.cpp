// Transposed convolutions by the phases of their output.

#include <fmt/format.h>

#include <array>

#include "gpu/case.hpp"
#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

struct Kind {
  const char* text;  // {T}: dtype
  std::array<const char*, 4> plans;
};

constexpr std::array kinds{
    Kind{"store acc as y : {T}", {"", "order=cooperative", "tile=64x64", "cluster=2x1"}},
    Kind{"operand r[m,n] : {T}\nstore relu(acc * s[b,n] + bias[n]) + r as y : {T}",
         {"", "swap=on", "split=on", "tile=128x96 order=pingpong2"}},
    Kind{"h = acc + bias[n]\nstore h : {T}\nstore tanh(h) as y : {T}", {"", "swap=on tile=128x64", "tile=256x64", ""}},
    Kind{"operand r[m,n]\nh = acc + bias[n]\nstore h : {T}\nstore silu(group_norm(h, groups=4, scale=gamma[n], "
         "shift=beta[n])) + r as y : {T}",
         {"mode=streamed", "mode=resident", "mode=streamed swap=on tile=128x64", "mode=resident order=cooperative"}},
    Kind{"n = group_norm(acc + bias[n], groups=2, scale=gamma[n], shift=beta[n])\nstore silu(n) as y : {T}\n"
         "store n as z : {T}",
         {"mode=resident split=on", "mode=streamed tile=64x64", "mode=resident cluster=1x2 tile=64x32",
          "mode=streamed"}},
    Kind{"operand r[m,n] : {T}\nh = acc + bias[n]\nstore h : {T}\nstore layer_norm(h, scale=gamma[n], shift=beta[n]) + "
         "r as y : {T}",
         {"", "order=cooperative", "", ""}},
    Kind{"h = acc * s[m] + bias[n]\nstore h as y : f32\nstore max(h, over=m) as top : f32\n"
         "store variance(h, over=(m,n), per=b, groups=2) as var : f32\nstore sum(silu(h)) as total : f32",
         {"", "cluster=1x2 tile=64x32", "", "tile=128x64"}},
    Kind{"store softmax(acc + 0.1 * index(w) - 0.2 * index(h), over=n) as y : {T}\nstore sum(acc, over=n) as s : f32",
         {"", "tile=64x64", "", ""}}};

ConvTranspose2d draw(int i, Random& random) {
  constexpr std::array<std::array<std::int64_t, 3>, 8> forms{
      // taps, padding, output padding
      {{4, 1, 0}, {2, 0, 0}, {3, 1, 1}, {3, 1, 0}, {4, 0, 1}, {3, 0, 0}, {5, 2, 1}, {1, 0, 1}}};
  ConvTranspose2d t;
  t.n = random.between(1, 3), t.h = random.between(2, 21), t.w = random.between(2, 21);
  t.c = 8 * random.between(1, 20), t.k = 8 * random.between(1, 24);
  t.stride = {2, 2};
  const auto& rows = forms[static_cast<std::size_t>(i) % forms.size()];
  const auto& columns = random.chance(0.6) ? rows : forms[static_cast<std::size_t>(random.below(8))];
  t.r = rows[0], t.s = columns[0];
  t.pad = {rows[1], columns[1], rows[1], columns[1]};
  t.output_pad = {rows[2], columns[2]};
  if (random.chance(0.3)) t.pad[0] = random.between(0, 3), t.pad[1] = random.between(0, 3);
  return t;
}

bool runs_by_phases(const Case& c) {
  return conv_config(lower::lower(c.contraction(), graph_of(c), c.options, planning_device()).value().plan())
      .by_parity();
}

}  // namespace

std::vector<Case> phase_cases(std::uint64_t seed) {
  Random random(seed + 21);
  std::vector<Case> cases;
  for (int i = 0; i < 96; ++i) {
    const Kind& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
    const DType type = i % 5 == 0 ? DType::f16 : DType::bf16;
    Case c{.name = fmt::format("phases {}", i), .conv = {}, .text = kind.text, .options = {}};
    for (std::size_t at = c.text.find("{T}"); at != std::string::npos; at = c.text.find("{T}", at))
      c.text.replace(at, 3, std::string(to_string(type)));
    c.transposed = draw(i / 8 + i, random);
    c.transposed->dtype_x = c.transposed->dtype_w = type;
    if (extents(*c.transposed).rows() * c.transposed->k > 400000) c.transposed->k = 32;
    c.conv = plan::as_convolution(*c.transposed).conv;
    c.options.device = Device::cuda;
    c.options.plan = kind.plans[static_cast<std::size_t>(i / 8) % 4];
    c.seed = random.next();
    if (!is_served(c) || !runs_by_phases(c)) c.options.plan.clear();
    if (is_served(c) && runs_by_phases(c)) cases.push_back(std::move(c));
  }
  return cases;
}

/// A filter of one tap, which three of the phases do not have, and channels that fill no box, behind whole tiles.
std::vector<Case> small_phase_cases() {
  std::vector<Case> cases;
  for (const char* plan : {"load=halo order=pingpong tile=64x72", "load=halo cluster=2x1 tile=64x40",
                           "load=halo cluster=1x2 tile=64x40 depth=128"}) {
    Case c{.name = "phases", .conv = {}, .text = "store acc * s[b,n] + bias[n] as y : bf16", .options = {}};
    c.transposed = {.n = 2, .h = 9, .w = 10, .c = 136, .k = 72, .stride = {2, 2}, .output_pad = {1, 0}};
    if (!cases.empty()) c.transposed->r = 3, c.transposed->s = 5, c.transposed->pad = {1, 2, 0, 1};
    c.transposed->dtype_x = c.transposed->dtype_w = DType::bf16;
    c.conv = plan::as_convolution(*c.transposed).conv;
    c.options.device = Device::cuda, c.options.plan = plan;
    c.seed = 90 + cases.size();
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
