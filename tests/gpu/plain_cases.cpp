// Every kind of contraction, of every pair of operand types, by the family that serves all architectures.

#include <fmt/format.h>

#include <algorithm>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

struct PlainText {
  const char* text;  ///< {G}: groups of channels
  const char *witnessed = "", *axes = "";
};

constexpr PlainText plain_texts[] = {
    {"store acc as y : bf16"},
    {"operand r[m,n] : bf16\nstore gelu(acc * alpha[] + bias[n]) + r * t[b] as y : f16"},
    {"h = acc + s[b,n]\nstore h : f16\nstore tanh(h) as y : bf16"},
    {"store relu(acc + bias[n]) as y : f32"},
    {"operand keep[m] : bool\noperand more[m,n] : i32\nstore select(keep, acc, s[m]) as y : bf16\n"
     "store acc > 0 as positive : bool\nstore cast(acc * 8, i32) + more as i : i32\nstore s[m] * 2 as rows : f32"},
    {"inside = index(h) > 0 & index(w) < extent(w) - 1\n"
     "store select(inside, acc, -acc) + 0.01 * index(n) + 0.25 * index(b) as y : f16"},
    {"operand r[m,n]\nstore silu(group_norm(acc + bias[n], groups={G}, scale=gamma[n], shift=beta[n])) + r as y : "
     "bf16"},
    {"h = acc + bias[n]\nstore h : bf16\nstore h + group_norm(h, groups={G}, eps=1e-4) as y : f16\n"
     "store mean(h, over=(m,n), per=b, groups={G}) as mu : f32"},
    {"operand r[m,n] : f16\nstore layer_norm(acc + r, scale=gamma[n], shift=beta[n]) as y : bf16"},
    {"y = batch_norm(acc * s[n], scale=gamma[n], shift=beta[n], eps=1e-3)\nstore y : bf16\nstore relu(y) as z : f16"},
    {"store acc + bias[n] as y : bf16", "acc * 2", "mn"},
    {"store instance_norm(acc + s[b,n]) as y : f16"},
};

constexpr std::pair<DType, DType> operand_types[] = {{DType::bf16, DType::bf16}, {DType::f16, DType::f16},
                                                     {DType::f32, DType::f32},   {DType::bf16, DType::f32},
                                                     {DType::f16, DType::bf16},  {DType::f32, DType::f16}};
constexpr const char* plain_tiles[] = {"128x64", "64x64", "32x32", "128x16", "16x128", "8x32", "64x4"};

enum class Kind { conv, grouped, planes, transposed, transposed_planes, product, several_products };
constexpr int kinds = 7;

void set_text(Case& c, const PlainText& t) {
  c.text = t.text, c.witnessed = t.witnessed, c.witness_axes = t.axes;
  const std::string groups = fmt::format("{}", c.conv.k % 3 == 0 ? c.conv.k / 3 : c.conv.k);
  for (std::size_t at = c.text.find("{G}"); at != std::string::npos; at = c.text.find("{G}"))
    c.text.replace(at, 3, groups);
  if (c.text.find("alpha[]") != std::string::npos) c.scalars = {{"alpha", 0.75}};
}

template <class C>
void draw_filter(C& c, Random& r) {
  c.r = r.between(1, 4), c.s = r.between(1, 4);
  c.stride = {r.between(1, 3), r.between(1, 3)}, c.dilation = {r.between(1, 3), r.between(1, 2)};
}

Conv2d draw_conv(Kind kind, Random& r) {
  Conv2d c;
  draw_filter(c, r);
  for (std::size_t side = 0; side < 4; ++side) c.pad[side] = r.between(0, 4);
  c.groups = kind == Kind::grouped ? r.one_of({2, 3, 5}) : kind == Kind::planes ? r.one_of({1, 1, 3}) : 1;
  c.n = r.between(1, 3), c.c = c.groups * r.between(1, 19), c.k = c.groups * r.between(1, c.groups > 1 ? 24 : 90);
  c.h = (c.r - 1) * c.dilation[0] + 1 + r.between(0, 12), c.w = (c.s - 1) * c.dilation[1] + 1 + r.between(0, 12);
  c.layout = kind == Kind::planes ? Layout::nchw : Layout::nhwc;
  return c;
}

ConvTranspose2d draw_transposed(Kind kind, Random& r) {
  ConvTranspose2d c;
  draw_filter(c, r);
  c.groups = r.one_of({1, 1, 2});
  c.n = r.between(1, 2), c.c = c.groups * r.between(1, 17), c.k = c.groups * r.between(1, 40);
  c.h = r.between(2, 7), c.w = r.between(2, 7);
  // At most what leaves an output
  const auto most = [](std::int64_t taps, std::int64_t dilation) {
    return std::min<std::int64_t>(2, (taps - 1) * dilation / 2);
  };
  for (std::size_t i = 0; i < 4; ++i)
    c.pad[i] = r.between(0, static_cast<int>(i % 2 == 0 ? most(c.r, c.dilation[0]) : most(c.s, c.dilation[1])));
  for (std::size_t i = 0; i < 2; ++i) c.output_pad[i] = c.stride[i] > 1 ? r.between(0, 1) : 0;
  c.layout = kind == Kind::transposed_planes ? Layout::nchw : Layout::nhwc;
  return c;
}

Gemm draw_product(Kind kind, Random& r) {
  return {.batch = kind == Kind::several_products ? r.between(2, 4) : 1,
          .m = r.between(1, 150),
          .n = r.between(1, 150),
          .k = r.between(1, 90),
          .transpose_a = r.chance(0.5),
          .transpose_b = r.chance(0.5)};
}

template <class C>
void set_types(C& c, std::pair<DType, DType> types) {
  c.dtype_x = types.first, c.dtype_w = types.second;
}

Case draw_plain(Kind kind, std::pair<DType, DType> types, Random& r) {
  Case c{.name = "plain", .conv = {}, .text = {}, .options = {}};
  c.options.device = Device::cuda;
  if (kind == Kind::product || kind == Kind::several_products) {
    c.product = draw_product(kind, r);
    c.product->dtype_a = types.first, c.product->dtype_b = types.second;
  } else if (kind == Kind::transposed || kind == Kind::transposed_planes) {
    c.transposed = draw_transposed(kind, r);
    set_types(*c.transposed, types);
  } else {
    c.conv = draw_conv(kind, r);
    set_types(c.conv, types);
  }
  if (c.product || c.transposed) c.conv = plan::as_convolution(c.contraction()).conv;
  return c;
}

// Image and result with room between their pixels, which channels first have not
void draw_gaps(Case& c, Kind kind, Random& r) {
  const bool planes = kind == Kind::planes || kind == Kind::transposed_planes;
  if (kind == Kind::several_products) c.gaps.matrices = 8 * r.between(0, 2);
  if (planes || kind == Kind::several_products || (c.product && c.product->transpose_a)) return;
  c.gaps.image = 8 * r.between(0, 2);
  if (c.text.find("as y : f32") == std::string::npos) c.gaps.output = 8 * r.between(0, 2);
}

std::vector<Case> draw_all(std::uint64_t seed, int count) {
  Random r(seed + 41);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    const auto kind = static_cast<Kind>(i % kinds);
    Case c = draw_plain(kind, operand_types[i / 2 % std::size(operand_types)], r);
    set_text(c, plain_texts[i * 5 % std::size(plain_texts)]);
    draw_gaps(c, kind, r);
    c.options.plan = fmt::format("family=plain tile={}", plain_tiles[(i + i / kinds) % std::size(plain_tiles)]);
    c.options.accurate = i % 11 == 3;
    c.seed = r.next();
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace

std::vector<Case> plain_cases(std::uint64_t seed) { return draw_all(seed, 168); }

std::vector<Case> small_plain_cases() { return draw_all(0, 14); }

}  // namespace unisono::gpu
