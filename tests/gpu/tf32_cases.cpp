// f32 operands, which are multiplied as tf32: every way of loading them, results of f32 and 16 bits, normalisations.

#include <fmt/format.h>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::gpu {

namespace {

constexpr const char* texts[] = {
    "store acc as y : f32", "operand r[m,n]\nh = acc + bias[n]\nstore h + r as y : f32\nstore relu(h) as z : bf16",
    "store silu(group_norm(acc + bias[n], groups=4, scale=gamma[n], shift=beta[n])) as y : bf16",
    "h = acc + bias[n]\nstore softmax(h, over=n) as y : f32\nstore mean(h, over=m) as mu : f32",
    "store gelu(layer_norm(acc, scale=gamma[n])) as y : f16"};

void add(std::vector<Case>& cases, Case c, const char* text, const char* plan) {
  c.text = text, c.options.plan = plan, c.options.device = Device::cuda;
  c.conv.dtype_x = c.conv.dtype_w = DType::f32;
  c.seed = 2100 + cases.size();
  if (is_served(c)) cases.push_back(std::move(c));
}

Case product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, int layout) {
  Case c{.name = "tf32 product", .conv = {}, .text = {}, .options = {}};
  c.product = {.batch = batch, .m = m, .n = n, .k = k, .transpose_a = layout % 2 == 1, .transpose_b = layout < 2};
  c.conv = plan::as_convolution(*c.product).conv;
  return c;
}

Case convolution(const char* name, const Conv2d& conv) {
  return {.name = fmt::format("tf32 {}", name), .conv = conv, .text = {}, .options = {}};
}

}  // namespace

std::vector<Case> tf32_cases() {
  std::vector<Case> cases;
  for (const char* text : texts)
    for (int layout = 0; layout < 4; ++layout) add(cases, product(1 + layout % 2, 150, 72, 100, layout), text, "");
  for (const char* plan : {"order=cooperative", "cluster=2x1", "split=on", "swap=on tile=128x64", "tile=256x64"})
    for (const char* text : {texts[0], texts[2]}) add(cases, product(1, 300, 128, 244, 0), text, plan);
  add(cases, product(1, 77, 33, 51, 0), texts[1], "");
  const Conv2d base{.n = 2, .h = 17, .w = 13, .c = 36, .k = 64, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
  for (const char* plan : {"load=im2col", "load=halo", "load=halo swap=on tile=128x64", "load=im2col cluster=2x1",
                           "split=on", "mode=streamed", "order=pingpong2"})
    for (const char* text : texts) add(cases, convolution("convolution", base), text, plan);
  Conv2d odd = base;
  odd.c = 37, odd.k = 60;
  for (const char* text : texts) add(cases, convolution("odd channels", odd), text, "");
  Conv2d planes = base;
  planes.layout = Layout::nchw;
  for (const char* text : texts) add(cases, convolution("channels first", planes), text, "");
  Conv2d depthwise = base;
  depthwise.groups = depthwise.c = depthwise.k = 40;
  for (const char* text : texts) add(cases, convolution("depthwise", depthwise), text, "");
  Case transposed = convolution("transposed", {});
  transposed.transposed = {
      .n = 2, .h = 7, .w = 6, .c = 20, .k = 24, .r = 4, .s = 4, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
  transposed.conv = plan::as_convolution(*transposed.transposed).conv;
  add(cases, transposed, texts[0], "");
  return cases;
}

}  // namespace unisono::gpu
