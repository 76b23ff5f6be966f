// Softmax, layer norm and RMS norm over more channels than a tile has: tiles of a row exchange one statistic.

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr const char* softmax = "store softmax(acc * 0.5 + bias[n], over=n) as y : {T}";
constexpr const char* after_softmax =
    "operand r[m,n] : {T}\nstore softmax(acc + r, over=n) * gamma[n] + c[n] as y : {T}";
// Elements that nothing is left of, maxima of tiles that lie far apart
constexpr const char* masked =
    "operand k[m,n] : bool\nstore softmax(select(k, acc * 40 + bias[n] * 90, -inf), over=n) as y : {T}";
constexpr const char* layer = "store silu(layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n])) as y : {T}";
constexpr const char* layer_and_input =
    "operand r[m,n] : {T}\nh = acc + r\nstore h as h : {T}\nstore layer_norm(h, scale=gamma[n], shift=beta[n]) as y : "
    "{T}";
constexpr const char* far_layer =
    "store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n], eps=1e-12) as y : {T}";
constexpr const char* rms =
    "operand r[m,n] : {T}\nh = acc + r\nstore h as h : {T}\nstore rms_norm(h, scale=gamma[n]) as y : {T}";
constexpr const char* rms_and_gate =
    "y = rms_norm(acc * 2 + bias[n])\nstore y as y : {T}\nstore gelu_tanh(y * gamma[n]) as z : {T}";
// Results of f32, values of rows on either side, more than two stores
constexpr const char* of_rows =
    "operand r[m,n] : {T}\nh = acc * w[m] + r\ny = rms_norm(h, scale=gamma[n])\nstore h as h : {T}\nstore y as y : "
    "f32\nstore y * v[m] as z : {T}";
constexpr const char* of_images = "store softmax(acc * w[m] + s[b,n], over=n) as y : f32";
constexpr const char* three =
    "y = layer_norm(acc)\nstore y as y : {T}\nstore y * w[m] as z : {T}\nstore abs(y) as a : {T}";
constexpr const char* wide_layer =
    "store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n], eps=1e-12) as y : f32";
constexpr const char* wide_softmax = "store softmax(acc * 0.5 + bias[n], over=n) as y : f32";
constexpr const char* many =
    "h = acc + bias[n]\nt = max(h, over=n) + min(h, over=n)\nu = mean(h, over=n) + mean(square(h), over=n)\nstore "
    "softmax(h, over=n) + t * 0.1 as y : f32\nstore (h + t) * rsqrt(1 + abs(u)) as z : {T}";

Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, DType type = DType::bf16) {
  Gemm g{.m = m, .n = n, .k = k, .transpose_b = true};
  g.dtype_a = g.dtype_b = type;
  return g;
}

Case row_case(Gemm product, const char* text, std::string plan) {
  Case c{.name = "rows over several tiles", .conv = {}, .text = filled(text, product.dtype_a), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  c.product = product;
  c.conv = plan::as_convolution(*c.product).conv;
  return c;
}

Case row_case(const Conv2d& conv, const char* text, std::string plan) {
  Case c{.name = "rows over several tiles", .conv = conv, .text = filled(text, conv.dtype_x), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  return c;
}

Conv2d image(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps) {
  Conv2d x{
      .n = n, .h = h, .w = w, .c = c, .k = k, .r = taps, .s = taps, .pad = {taps / 2, taps / 2, taps / 2, taps / 2}};
  x.dtype_x = x.dtype_w = DType::bf16;
  return x;
}

}  // namespace

std::vector<Case> small_row_cases() {
  std::vector<Case> cases{
      row_case(product(77, 328, 64), softmax, "mode=rows tile=64x64"),
      row_case(product(130, 328, 64, DType::f16), after_softmax, "mode=rows tile=128x80 order=cooperative"),
      row_case(product(81, 296, 64), masked, "mode=rows tile=64x32"),
      row_case(product(150, 272, 64), layer, "mode=rows tile=64x64"),
      row_case(product(70, 384, 72), layer_and_input, "mode=rows tile=64x96 cluster=1x2"),
      row_case(product(141, 320, 64), rms, "mode=rows tile=128x64 order=pingpong"),
      row_case(product(66, 264, 40), rms_and_gate, "mode=rows tile=64x40 cluster=2x1"),
      row_case(image(2, 9, 11, 16, 320, 3), layer, "mode=rows load=halo tile=64x80"),
      row_case(image(1, 11, 9, 13, 275, 3), softmax, "mode=rows tile=64x72"),
      row_case(product(141, 824, 64), layer, "mode=rows tile=128x24 order=pingpong"),
      row_case(product(90, 192, 64), softmax, "mode=rows tile=64x192"),
      row_case(product(90, 192, 64), rms, "mode=rows tile=128x192"),
      // Tiles that wait behind the next one, whose rows spare warps merge across more than eight
      row_case(product(660, 392, 64), layer, "mode=rows tile=64x64 order=pingpong deferred=on"),
      row_case(product(330, 824, 64), layer, "mode=rows tile=128x24 order=pingpong deferred=on"),
      row_case(product(600, 712, 72, DType::f16), after_softmax, "mode=rows tile=128x80 order=cooperative deferred=on"),
      row_case(product(520, 312, 64), rms, "mode=rows tile=128x24 order=pingpong2 deferred=on fetch=0"),
      row_case(product(500, 328, 64), of_rows, "mode=rows tile=64x40 order=pingpong deferred=on fetch=0"),
      row_case(image(2, 19, 17, 16, 275, 3), softmax, "mode=rows tile=64x72 order=pingpong deferred=on"),
      row_case(product(900, 584, 72), layer, "mode=rows tile=128x72 order=cooperative cluster=2x2 deferred=on"),
      // A cluster's last tile lies beyond the channels
      row_case(product(70, 200, 72), layer, "mode=rows tile=64x72 cluster=1x2"),
      row_case(product(141, 328, 64), of_rows, "mode=rows tile=128x64 order=cooperative"),
      row_case(product(90, 192, 40, DType::f16), of_rows, "mode=rows tile=64x192"),
      row_case(image(2, 5, 9, 16, 320, 3), of_images, "mode=rows load=halo tile=64x64"),
      row_case(product(70, 264, 64), three, "mode=rows tile=64x96 cluster=1x2"),
      row_case(product(45, 192, 64), wide_softmax, "mode=rows tile=64x192"),
      // General epilogues whose tiles merge shares of the rows, of one entry and of two
      row_case(product(70, 200, 64), wide_softmax, "mode=general tile=64x16"),
      row_case(product(141, 200, 64), many, "mode=general tile=128x16 order=cooperative")};
  Gemm several = product(45, 288, 64);
  several.batch = 3;
  cases.push_back(row_case(several, softmax, "mode=rows tile=64x96"));
  Case far = row_case(image(2, 11, 9, 64, 320, 3), far_layer, "mode=rows tile=64x80");
  far.offset = 100, far.deviation = 1;
  cases.push_back(far);
  far.text = wide_layer;
  cases.push_back(far);
  for (Case& c : cases) c.seed = 2600 + static_cast<std::uint64_t>(&c - cases.data());
  return cases;
}

std::vector<Case> row_cases(std::uint64_t seed) {
  constexpr const char* texts[] = {softmax,      after_softmax, masked,    layer, layer_and_input, rms,
                                   rms_and_gate, of_rows,       of_images, three, wide_softmax,    wide_layer};
  constexpr const char* plans[] = {"",
                                   "order=cooperative",
                                   "order=pingpong",
                                   "order=pingpong2",
                                   "cluster=1x2",
                                   "cluster=2x1",
                                   "mode=rows tile=128x128",
                                   "mode=rows tile=64x256",
                                   "mode=rows tile=128x64",
                                   "mode=rows tile=256x64",
                                   "mode=rows tile=64x128 deferred=on"};
  constexpr DType types[] = {DType::bf16, DType::f16, DType::f32};
  Random random(seed * 151 + 3);
  std::vector<Case> cases = small_row_cases();
  // What is measured, and rows of many tiles
  for (const char* text : {softmax, after_softmax, masked, layer, layer_and_input, rms, rms_and_gate})
    for (const std::int64_t n : {512, 1024, 3072, 4096, 16384})
      cases.push_back(row_case(product(300, n, 128), text, ""));
  for (int tries = 0; cases.size() < 96 && tries < 4000; ++tries) {
    const DType type = types[random.between(0, 5) / 2];
    const char* text = texts[random.between(0, std::size(texts) - 1)];
    const std::string plan = plans[random.between(0, std::size(plans) - 1)];
    if (text == masked && type == DType::f32) continue;  // logits so far apart, of tf32, have no claim
    Case c =
        random.chance(0.7)
            ? row_case(product(random.between(1, 900), 8 * random.between(33, 700), 8 * random.between(1, 40), type),
                       text, plan)
            : row_case(image(random.between(1, 3), random.between(5, 40), random.between(5, 40),
                             8 * random.between(1, 12), 8 * random.between(33, 120), random.chance(0.5) ? 1 : 3),
                       text, plan);
    if (type == DType::f32) c.text = filled(text, DType::bf16);
    c.seed = seed + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
