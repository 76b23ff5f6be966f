// Kernels that store moments of what they store.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/kernels.hpp"
#include "gpu/moments.hpp"
#include "plan/as_convolution.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/float_convert.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

lower::Lowered kernel_of(const Case& c, const plan::Device& device) {
  lower::Further further;
  further.delays = c.delays, further.filters_ahead = c.filters_ahead;
  if (c.moments != 0) further.moments = {moments_name, c.moments};
  return lower::lower(lower::analyse(c.contraction(), graph_of(c), c.options, further).value(), device).value();
}

Executable compile_case(const Case& c) {
  lower::Lowered k = kernel_of(c, device().device);
  k.problem.options.device_index = device().index;
  jit::Binary binary = compiler().compile(k.request());
  return Executable(cuda::build(std::move(k), std::move(binary)));
}

namespace {

using test::Random;

struct Sums {
  double count = 0, mean = 0, m2 = 0, largest = 0;
  void merge(double n, double other, double more) {
    const double delta = other - mean, total = count + n;
    if (total == 0) return;
    mean += delta * n / total, m2 += more + delta * delta * count * n / total, count = total;
  }
};

// Sums over `unit` neighbouring channels of one image, as they lie in memory
Sums sums_of(const ConstTensorView& y, std::int64_t image, std::int64_t first, std::int64_t unit) {
  Sums s;
  const std::int64_t pitch = y.strides.empty() ? y.shape[3] : y.strides[2], pixels = y.shape[1] * y.shape[2];
  for (std::int64_t p = image * pixels; p < (image + 1) * pixels; ++p)
    for (std::int64_t n = first; n < first + unit; ++n) {
      const double x = support::load(y.data, p * pitch + n, y.dtype);
      s.merge(1, x, 0);
      s.largest = std::max(s.largest, std::abs(x));
    }
  return s;
}

Case moment_case(const Conv2d& conv, std::string text, std::string plan, std::int64_t channels) {
  Case c{.name = "moments", .conv = conv, .text = std::move(text), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  if (c.text.find("r[m,n]") != std::string::npos) c.options.storage["r"] = conv.dtype_x;
  for (std::size_t at = 0; conv.dtype_x == DType::f16 && (at = c.text.find("bf16")) != std::string::npos;)
    c.text.replace(at, 4, "f16");
  c.moments = channels;
  return c;
}

Conv2d conv(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps,
            DType type = DType::bf16) {
  Conv2d x{
      .n = n, .h = h, .w = w, .c = c, .k = k, .r = taps, .s = taps, .pad = {taps / 2, taps / 2, taps / 2, taps / 2}};
  x.dtype_x = x.dtype_w = type;
  return x;
}

Case by_phases(const ConvTranspose2d& t, std::string text, std::string plan, std::int64_t channels) {
  Case c = moment_case({}, std::move(text), std::move(plan), channels);
  c.transposed = t;
  c.transposed->dtype_x = c.transposed->dtype_w = DType::bf16;
  c.conv = plan::as_convolution(*c.transposed).conv;
  if (c.text.find("r[m,n]") != std::string::npos) c.options.storage["r"] = DType::bf16;
  return c;
}

constexpr const char* linear = "store acc + bias[n] as y : bf16";
constexpr const char* residual = "store acc + bias[n] + r[m,n] as y : bf16";
constexpr const char* by_image = "store silu(acc + bias[n] + temb[b,n]) as y : bf16";

}  // namespace

// The moments of a unit pass through a warp's shuffles, the warps of a warpgroup and here the slots. Each step rounds
// means at the size of the values once or twice, deviations at their own size; a rounded mean shifts M2 by its square.
std::string judge_moments(const Outcome& o, const ConstTensorView& y) {
  const Tensor& moments = o.tensors.at(moments_name);
  const std::int64_t images = moments.shape[0], slots = moments.shape[1], units = moments.shape[2];
  const std::int64_t unit = y.shape[3] / units;
  const auto entry = [&](std::int64_t image, std::int64_t slot, std::int64_t u, std::int64_t field) {
    return support::load(moments.host.data(), ((image * slots + slot) * units + u) * 4 + field, DType::f32);
  };
  int wrong = 0;
  std::string text;
  for (std::int64_t image = 0; image < images; ++image)
    for (std::int64_t u = 0; u < units; ++u) {
      const Sums expected = sums_of(y, image, u * unit, unit);
      Sums found;
      for (std::int64_t slot = 0; slot < slots; ++slot)
        found.merge(entry(image, slot, u, 2), entry(image, slot, u, 0), entry(image, slot, u, 1));
      const double deviation = std::sqrt(expected.m2 / expected.count), step = 0x1p-23 * expected.largest;
      const bool ok = found.count == expected.count &&
                      std::abs(found.mean - expected.mean) <= 4 * step + 1e-6 * deviation &&
                      std::abs(found.m2 - expected.m2) <= 1e-5 * expected.m2 + expected.count * 16 * step * step;
      if (ok || ++wrong > 1) continue;
      text = fmt::format("image {}, unit {} of {} channels: {} values, mean {}, M2 {} instead of {}, {}, {}", image, u,
                         unit, found.count, found.mean, found.m2, expected.count, expected.mean, expected.m2);
    }
  return wrong == 0 ? "" : fmt::format("statistics: {} of {} units are off; {}\n", wrong, images * units, text);
}

// Every way to hold a tile, units of 1 to 30 channels, odd sizes, images of which tiles hang over; large common offsets
std::vector<Case> small_moment_cases() {
  std::vector<Case> cases{
      moment_case(conv(2, 9, 11, 16, 72, 3), residual, "tile=128x64 load=halo split=off", 6),
      moment_case(conv(2, 7, 13, 32, 40, 1), linear, "tile=64x40 load=im2col split=off", 5),
      moment_case(conv(2, 13, 19, 16, 128, 3, DType::f16), by_image, "swap=on load=halo tile=256x64", 1),
      moment_case(conv(1, 17, 33, 16, 120, 3), linear, "order=cooperative tile=128x120 load=halo split=off", 30),
      moment_case(conv(3, 6, 7, 16, 64, 3), residual, "order=pingpong2 tile=128x64 load=im2col split=off", 64),
      moment_case(conv(2, 5, 6, 256, 64, 1), linear, "split=on", 2),
      by_phases({.n = 2, .h = 9, .w = 10, .c = 16, .k = 64, .r = 3, .s = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}},
                linear, "swap=on load=halo tile=128x64", 2)};
  cases[3].offset = 1000, cases[3].deviation = 20;    // a few steps of the stored type
  cases[6].offset = -300, cases[6].deviation = 0.01;  // each channel one value
  cases[0].gaps.output = 24;
  cases.push_back(moment_case(conv(2, 10, 12, 16, 64, 3), linear, "load=halo tile=128x64", 4));
  cases.back().resampled = {.upsampled = "e", .only_upsampled = true};
  return cases;
}

std::vector<Case> moment_cases(std::uint64_t seed) {
  constexpr const char* plans[] = {"",
                                   "load=halo tile=128x128",
                                   "load=halo swap=on tile=256x64",
                                   "load=halo swap=on tile=128x128",
                                   "load=halo order=cooperative tile=128x160",
                                   "load=halo order=cooperative tile=256x128",
                                   "load=halo order=pingpong2 tile=256x64",
                                   "load=im2col tile=64x64",
                                   "load=im2col tile=128x96",
                                   "load=im2col swap=on tile=256x64",
                                   "load=im2col cluster=2x1",
                                   "load=halo cluster=1x2",
                                   "split=on"};
  constexpr const char* texts[] = {linear, residual, by_image};
  Random random(seed * 131 + 7);
  std::vector<Case> cases = small_moment_cases();
  int tries = 0;
  while (cases.size() < 72 && ++tries < 2000) {
    const std::int64_t taps = random.chance(0.4) ? 1 : 3, width = random.one_of({1, 2, 3, 5, 6, 10, 30, 60});
    Conv2d x = conv(random.between(1, 4), random.between(1, 40), random.between(1, 70), 8 * random.between(1, 20),
                    width * 8 * random.between(1, 8), taps, random.chance(0.3) ? DType::f16 : DType::bf16);
    if (random.chance(0.15)) x.stride = {2, 2};
    Case c = moment_case(x, texts[random.between(0, 2)], plans[random.between(0, std::size(plans) - 1)], width);
    if (random.chance(0.3)) c.offset = random.uniform(-1000, 1000), c.deviation = random.one_of({1, 20});
    if (random.chance(0.3)) {
      ConvTranspose2d t{
          .n = x.n, .h = x.h, .w = x.w, .c = x.c, .k = x.k, .r = 4, .s = 4, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
      c = by_phases(t, c.text, "", width);
      if (x.dtype_x != DType::bf16) continue;
    }
    c.seed = seed + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
