// Kernels that load their filters before the launches ahead have ended, one of each way to load and share them.

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::gpu {

namespace {

constexpr const char* residual = "store silu(acc + bias[n]) + r[m,n] as y : bf16";
constexpr const char* block = "store silu(group_norm(acc + bias[n], groups=16, scale=gamma[n])) as y : bf16";

Case ahead_case(const Conv2d& conv, const char* text, const char* plan) {
  Case c{.name = "ahead", .conv = conv, .text = text, .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = plan;
  if (c.text.find("r[m,n]") != std::string::npos) c.options.storage["r"] = DType::bf16;
  c.filters_ahead = true;
  return c;
}

Conv2d conv(std::int64_t c, std::int64_t k, std::int64_t taps) {
  return {.n = 2,
          .h = 17,
          .w = 19,
          .c = c,
          .k = k,
          .r = taps,
          .s = taps,
          .pad = {taps / 2, taps / 2, taps / 2, taps / 2},
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16};
}

Case product(const Gemm& gemm, const char* plan) {
  Case c = ahead_case({}, residual, plan);
  c.product = gemm;
  c.product->dtype_a = c.product->dtype_b = DType::bf16;
  c.conv = plan::as_convolution(*c.product).conv;
  return c;
}

}  // namespace

std::vector<Case> filters_ahead_cases() {
  std::vector<Case> cases{
      ahead_case(conv(64, 160, 3), block, "mode=resident load=im2col"),
      ahead_case(conv(72, 160, 3), residual, "load=halo split=off"),
      ahead_case(conv(64, 160, 3), block, "swap=on tile=128x64 mode=resident"),
      ahead_case(conv(64, 160, 3), block, "mode=streamed load=halo"),
      ahead_case(conv(64, 160, 3), residual, "split=on"),
      ahead_case(conv(64, 160, 3), residual, "load=im2col cluster=2x1 split=off"),
      ahead_case(conv(64, 160, 3), residual, "load=halo cluster=2x1 split=off"),
      ahead_case(conv(64, 160, 3), residual, "load=im2col cluster=1x2 split=off"),
      ahead_case(conv(24, 64, 3), residual, "depth=128 load=im2col tile=128x64"),  // 27 atoms: half a step of zeros
      ahead_case(conv(40, 80, 1), block, "stationary=on load=im2col tile=64x40 mode=resident"),
      ahead_case(conv(32, 64, 3), residual, "stationary=on load=halo cluster=2x1 tile=64x32"),
      product({.m = 136, .n = 168, .k = 200}, "load=im2col cluster=2x1"),
      product({.m = 77, .n = 136, .k = 72, .transpose_b = true}, "load=im2col tile=128x64")};
  Case phases = ahead_case({}, block, "load=halo mode=resident");
  phases.text = "store silu(group_norm(acc + bias[n], groups=4, scale=gamma[n])) as y : bf16";
  phases.transposed = {
      .n = 2, .h = 9, .w = 10, .c = 64, .k = 96, .r = 3, .s = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
  phases.transposed->dtype_x = phases.transposed->dtype_w = DType::bf16;
  phases.conv = plan::as_convolution(*phases.transposed).conv;
  cases.push_back(std::move(phases));
  return cases;
}

}  // namespace unisono::gpu
