// Images of any size: what a second pass over spilled tiles serves beyond one or two stores of 16 bits.

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr const char* block =
    "store silu(group_norm(acc + bias[n], groups={G}, scale=gamma[n], shift=beta[n])) as y : f32";
constexpr const char* plain_block =
    "store silu(group_norm(acc + bias[n], groups={G}, scale=gamma[n], shift=beta[n])) as y : {T}";
constexpr const char* residual =
    "operand p[m,n] : {T}\noperand r[m,n] : {T}\nstore relu(group_norm(acc * 3 + p, groups={G}, scale=gamma[n])) + r + "
    "q[m,n] as y : f32";
constexpr const char* rows =
    "operand w[m] : {T}\ny = group_norm(acc + bias[n], groups={G}, scale=gamma[n], shift=t[b,n])\n"
    "store tanh(y * w + v[m] * 0.5) + cast(index(h), f32) * 0.01 - cast(index(w), f32) * 0.02 + cast(index(n) + "
    "index(b), f32) * 0.1 as y : f32";
constexpr const char* short_rows =
    "y = group_norm(acc + bias[n], groups={G}, scale=gamma[n])\nstore y * w[m] + cast(index(m), f32) * 0.001 as y : "
    "{T}";
constexpr const char* many =
    "h = acc + bias[n]\ny = group_norm(h, groups={G}, scale=gamma[n], shift=beta[n])\nstore h : {T}\nstore silu(y) as "
    "first : f32\nstore y * c[n] as second : f16\nstore y + w[m] as third : bf16\nstore y * y as fourth : f32\nstore "
    "mean(h, over=(m,n), per=b, groups={G}) as mu : f32";
constexpr const char* many_short =
    "y = group_norm(acc + bias[n], groups={G}, scale=gamma[n])\nstore relu(y) as first : {T}\nstore y + r[m,n] as "
    "second "
    ": f16\nstore y * 0.25 as third : {T}";
constexpr const char* batch = "store relu(batch_norm(acc + bias[n], scale=gamma[n], shift=beta[n])) as y : f32";
constexpr const char* losses =
    "operand t[m,n] : {T}\ny = group_norm(acc + bias[n], groups={G}, scale=gamma[n], shift=beta[n])\nstore silu(y) as "
    "y : "
    "f32\nstore mean(square(y - t)) as loss : f32\nstore mean(silu(y), over=m, per=b) as pooled : f32\nstore "
    "max(abs(y), "
    "over=(m,n), per=b) * 0.5 as peak : f32\nstore variance(y * gamma[n], over=(m,n), groups=2) as spread : f32";
constexpr const char* beside =
    "h = acc + bias[n]\ny = group_norm(h, groups={G}, scale=gamma[n])\nstore h as h : {T}\nstore y as y : {T}\nstore "
    "sum(h, over=m) + c[n] as sums : f32\nstore variance(h, over=(m,n), per=b, groups=2) as spread : f32\nstore min(h) "
    "as "
    "least : f32\nstore mean(y * w[m], over=m) as means : bf16";
constexpr const char* of_both =
    "h = acc + bias[n]\ny = group_norm(h, groups={G}, shift=beta[n])\nstore relu(y) as y : {T}\nstore mean(relu(y), "
    "over=m, "
    "per=b) - mean(h, over=m, per=b) * s[n] as both : f32\nstore variance(h, over=m, per=b) + variance(y, over=m, "
    "per=b) as "
    "spread : f32";
constexpr const char* alone =
    "h = acc * 0.5 + bias[n]\nstore group_norm(h, groups={G}) as y : {T}\nstore sum(square(h)) as energy : f32\nstore "
    "max(h, over=m) as top : f32";
constexpr const char* batch_loss =
    "y = batch_norm(acc + bias[n], scale=gamma[n], shift=beta[n])\nstore relu(y) as y : f32\nstore sum(relu(y)) as s : "
    "f32\nstore min(y, over=m) as least : f32";
constexpr const char* far =
    "store group_norm(acc + bias[n] * 200 + 1000, groups={G}, scale=gamma[n], shift=beta[n]) as y : f32";

Conv2d conv(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps,
            DType type = DType::bf16) {
  Conv2d x{
      .n = n, .h = h, .w = w, .c = c, .k = k, .r = taps, .s = taps, .pad = {taps / 2, taps / 2, taps / 2, taps / 2}};
  x.dtype_x = x.dtype_w = type;
  return x;
}

Case second_pass_case(const Conv2d& conv, const char* text, std::int64_t groups, std::string plan) {
  Case c{.name = "second pass", .conv = conv, .text = {}, .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = "mode=streamed " + std::move(plan);
  c.text = filled(text, conv.dtype_x == DType::f32 ? DType::bf16 : conv.dtype_x, groups);
  return c;
}

}  // namespace

// With more tiles of an image than a consumer group holds, on a GPU of a few SMs too
std::vector<Case> small_second_pass_cases() {
  std::vector<Case> cases{
      second_pass_case(conv(2, 47, 61, 16, 64, 3), block, 8, "load=halo tile=64x64"),
      second_pass_case(conv(1, 67, 45, 24, 40, 1), block, 5, "load=im2col tile=64x40 spill=bf16"),
      second_pass_case(conv(1, 65, 70, 16, 64, 3, DType::f16), residual, 4, "swap=on tile=128x64 spill=f16"),
      second_pass_case(conv(2, 50, 37, 16, 72, 3), rows, 3, "load=im2col order=cooperative tile=128x72"),
      second_pass_case(conv(1, 83, 50, 16, 32, 3), many, 4, "load=halo tile=64x32"),
      second_pass_case(conv(2, 49, 51, 16, 64, 1), many_short, 16, "tile=64x64"),
      second_pass_case(conv(1, 61, 53, 16, 128, 3), short_rows, 8, "tile=64x64 order=pingpong"),
      second_pass_case(conv(1, 64, 70, 8, 64, 3), far, 8, "load=halo swap=on tile=128x64"),
      second_pass_case(conv(3, 33, 41, 16, 48, 1), batch, 1, "load=im2col tile=64x48"),
      // The order of tiles and hints, with two tiles across, of which the last may be partial
      second_pass_case(conv(2, 53, 47, 16, 128, 3), block, 16, "raster=channels tile=64x64 order=pingpong hints=on"),
      second_pass_case(conv(2, 45, 50, 16, 72, 1), many_short, 9,
                       "raster=channels tile=128x32 order=cooperative hints=on"),
      second_pass_case(conv(2, 51, 43, 16, 192, 3), plain_block, 12,
                       "raster=channels tile=128x64 swap=on cluster=2x1 hints=on"),
      second_pass_case(conv(1, 66, 51, 16, 256, 1), plain_block, 16, "raster=channels tile=64x64 cluster=1x2")};
  // Stored reductions of either side: several blocks of rows a warpgroup, partial tiles, slices of every width
  const std::vector<Case> folds{
      second_pass_case(conv(2, 47, 61, 16, 64, 3), losses, 8, "load=halo tile=64x64 order=pingpong"),
      second_pass_case(conv(2, 45, 50, 16, 72, 1), beside, 9, "load=im2col tile=128x24 order=pingpong"),
      second_pass_case(conv(3, 37, 43, 16, 64, 3), of_both, 8, "load=halo tile=128x32"),
      second_pass_case(conv(1, 67, 45, 24, 80, 1), alone, 10, "load=im2col tile=128x80 order=cooperative"),
      second_pass_case(conv(3, 33, 41, 16, 48, 1), batch_loss, 1, "load=im2col tile=128x48 order=pingpong"),
      second_pass_case(conv(1, 66, 51, 16, 128, 1), losses, 8, "raster=channels tile=64x64 cluster=1x2 order=pingpong"),
      second_pass_case(conv(1, 64, 70, 8, 64, 3), losses, 8, "load=halo swap=on tile=128x64 spill=bf16")};
  cases.insert(cases.end(), folds.begin(), folds.end());
  Case seen = second_pass_case(conv(1, 63, 49, 16, 64, 1), block, 4, "load=im2col tile=64x64");
  seen.text = "y = group_norm(acc + bias[n], groups=4)\nstore y as z : bf16";
  seen.witnessed = "y", seen.witness_axes = "mn";
  cases.push_back(std::move(seen));
  Case phases = second_pass_case({}, block, 4, "load=halo tile=64x64");
  phases.transposed = ConvTranspose2d{.n = 2, .h = 21, .w = 26, .c = 16, .k = 64, .r = 4, .s = 4};
  phases.transposed->stride = {2, 2}, phases.transposed->pad = {1, 1, 1, 1};
  phases.transposed->dtype_x = phases.transposed->dtype_w = DType::bf16;
  phases.conv = plan::as_convolution(*phases.transposed).conv;
  phases.text = filled(block, DType::bf16, 4);
  cases.push_back(std::move(phases));
  return cases;
}

std::vector<Case> second_pass_cases(std::uint64_t seed) {
  constexpr const char* plans[] = {"load=halo",
                                   "load=im2col",
                                   "spill=bf16",
                                   "spill=f16 swap=on tile=128x64",
                                   "load=halo swap=on tile=256x64",
                                   "load=halo swap=on tile=128x64 order=pingpong2",
                                   "order=cooperative",
                                   "cluster=2x1",
                                   "cluster=1x2",
                                   "tile=128x128",
                                   "tile=64x64 raster=channels hints=on",
                                   "tile=64x64 spill=f32"};
  constexpr const char* texts[] = {block, plain_block, residual, rows,   short_rows, many,  many_short,
                                   batch, far,         losses,   beside, of_both,    alone, batch_loss};
  constexpr DType types[] = {DType::bf16, DType::f16, DType::f32};
  Random random(seed * 149 + 7);
  std::vector<Case> cases = small_second_pass_cases();
  // What the founding documents ask for by name, as the planner serves it
  for (const char* spill : {"", "spill=bf16"}) {
    cases.push_back(second_pass_case(conv(1, 256, 256, 128, 128, 3), block, 32, spill));
    if (spill[0] == 0) cases.back().options.plan = "";
  }
  for (int tries = 0; cases.size() < 110 && tries < 4000; ++tries) {
    const std::int64_t groups = random.between(1, 6), channels = 8 * groups * random.between(1, 4);
    const Conv2d x =
        conv(random.between(1, 4), random.between(20, 150), random.between(20, 150), 8 * random.between(1, 12),
             channels, random.chance(0.5) ? 1 : 3, types[random.between(0, 5) / 2]);
    Case c = second_pass_case(x, texts[random.between(0, std::size(texts) - 1)], groups,
                              plans[random.between(0, std::size(plans) - 1)]);
    c.seed = seed + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
