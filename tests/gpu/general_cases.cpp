// Epilogues beyond a value for each element: values of rows, coordinates, results of every type, reductions.

#include <fmt/format.h>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::gpu {

namespace {

Case on_gpu(const std::string& name, std::string text, std::string plan) {
  Case c{.name = "general: " + name, .conv = {}, .text = std::move(text), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  return c;
}

struct Epilogue {
  const char *name, *text;
  bool one_tile = false;  ///< at most 256 channels
};

constexpr Epilogue epilogues[] = {
    {"a scale of rows", "store acc * s[m] + bias[n] as y : bf16"},
    {"a mask of rows", "operand keep[m] : bool\nstore select(keep, relu(acc + bias[n]), 0) as y : bf16"},
    {"a residual and a scale of rows",
     "operand r[m,n] : bf16\nstore silu(acc * s[m]) + r as y : bf16\nstore acc + r as z : bf16"},
    {"coordinates",
     "inside = index(h) > 0 & index(w) < extent(w) - 1\nstore select(inside, acc, -acc) + 0.01 * index(n) as y : bf16"},
    {"coordinates of images", "store acc + 0.25 * index(b) + t[b] * index(m) * 0.01 as y : bf16"},
    {"an image's number by itself", "store sin(acc + index(b)) as y : f32"},
    {"one-hot", "operand label[m] : i32\nstore acc - one_hot(label) as y : bf16"},
    {"f32", "store acc + bias[n] as y : f32"},
    {"f32 and two of 16 bits", "h = acc + bias[n]\nstore h : f32\nstore relu(h) as y : bf16\nstore tanh(h) as z : f16"},
    {"four results",
     "store acc as a : bf16\nstore -acc as b : bf16\nstore acc * 2 as c : bf16\nstore acc > 0 as positive : bool\n"
     "store cast(acc * 8, i32) as i : i32"},
    {"sums of channels", "store acc as y : bf16\nstore sum(acc + bias[n], over=m) as s : f32"},
    {"sums of channels and images",
     "store relu(acc) as y : bf16\nstore sum(relu(acc), over=m, per=b) as s : f32\n"
     "store max(acc, over=m, per=b) * c[b,n] as top : bf16"},
    {"extremes",
     "store max(acc, over=m) as top : f32\nstore min(acc, over=m) as low : f32\nstore max(acc) as peak : f32"},
    {"moments of channels",
     "h = acc + bias[n]\nstore h as y : bf16\nstore mean(h, over=m) as mu : f32\n"
     "store variance(h, over=m) as var : f32"},
    {"moments of groups",
     "store mean(acc, over=(m,n), groups=2) as mu : f32\n"
     "store variance(acc, over=(m,n), groups=2) as var : f32\n"
     "store sum_squares(acc, over=(m,n), per=b, groups=2) as q : f32"},
    {"moments of images",
     "store mean(acc, over=all, per=b) as mu : f32\nstore variance(acc, over=all, per=b) as var : f32"},
    {"moments of everything", "store sqrt(variance(acc) + 1e-6) as deviation : f32\nstore mean(acc) as mu : f32"},
    {"cross entropy of bits",
     "operand c[m,n] : bf16\np = sigmoid(0.5 * (acc + bias[n]))\nloss = -(c * log(p) + (1 - c) * log(1 - p))\nstore "
     "sum(loss) "
     "as "
     "loss : f32"},
    {"a sum of rows", "store sum(s[m] * s[m] + 1, over=m) as q : f32\nstore acc as y : bf16"},
    {"reductions over channels, stored",
     "store sum(acc, over=n) as s : f32\nstore max(acc + bias[n], over=n) as top : bf16\n"
     "store sqrt(sum_squares(acc, over=n)) * w[m] as length : f32"},
    {"softmax", "store softmax(acc + bias[n], over=n) as y : bf16", true},
    {"softmax, f32", "store softmax(acc * 0.5, over=n) as y : f32", true},
    {"rms norm", "store silu(rms_norm(acc + bias[n], scale=gamma[n], eps=1e-5)) as y : bf16", true},
    {"rms norm and its factor",
     "operand r[m,n] : bf16\nh = acc + r\nstore h : bf16\nstore rms_norm(h, scale=gamma[n]) as y : bf16\n"
     "store rsqrt(mean(square(h), over=n) + 1e-5) as rstd : f32",
     true},
    {"layer norm with its statistics",
     "h = acc + bias[n]\nstore layer_norm(h, scale=gamma[n], shift=beta[n]) as y : bf16\nstore mean(h, over=n) as mu : "
     "f32\nstore rsqrt(variance(h, over=n) + 1e-5) as rstd : f32",
     true},
    {"cross entropy",
     "operand label[m] : i32\np = one_hot(label)\nloss = -sum(p * log(softmax(acc + bias[n], over=n)), over=n)\n"
     "store loss as of_row : f32\nstore mean(loss, over=m) as loss : f32",
     true},
    {"distance from the largest", "store acc - max(acc, over=n) as y : bf16\nstore sum(acc, over=m) as s : f32", true},
};

constexpr const char* plans[] = {
    "", "order=cooperative", "load=im2col order=pingpong", "split=on", "cluster=2x1", "order=pingpong2", "load=halo"};

}  // namespace

std::vector<Case> general_cases() {
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    c.seed = 1100 + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  };
  std::size_t i = 0;
  for (const Epilogue& e : epilogues) {
    Case c = on_gpu(e.name, e.text, "");
    c.conv = {.n = 3,
              .h = 17,
              .w = 13,
              .c = 40,
              .k = 72,
              .r = 3,
              .s = 3,
              .pad = {1, 1, 1, 1},
              .dtype_x = DType::bf16,
              .dtype_w = DType::bf16};
    add(c);
    c.conv.k = e.one_tile ? 256 : 400;
    c.options.plan = plans[i++ % std::size(plans)];
    add(c);
    c.options.plan = e.one_tile ? "tile=128x256" : "tile=64x64";
    add(c);
    for (const std::int64_t m : {1, 77, 300}) {
      c.product = {.m = m,
                   .n = e.one_tile ? 120 : 24 * m,
                   .k = 64,
                   .transpose_b = true,
                   .dtype_a = DType::f16,
                   .dtype_b = DType::f16};
      if (c.product->n > 1000) c.product->n = 1000;
      if (m == 77) c.product->batch = 3, c.product->transpose_b = false;
      c.conv = plan::as_convolution(*c.product).conv;
      c.options.plan = m == 77 ? plans[i % std::size(plans)] : "";
      add(c);
    }
  }
  return cases;
}

// Numbers of channels that TMA cannot store, groups, channels first
std::vector<Case> general_plain_cases() {
  static constexpr const char* texts[] = {
      "h = acc * s[m] + bias[n]\nstore h as y : bf16\nstore h > 0 as positive : bool\nstore sum(h, over=m) as total : "
      "f32",
      "operand r[m,n] : f32\nstore softmax(acc + r, over=n) as y : f32\nstore mean(acc) as mu : f32",
      "store sum(acc, over=n) as s : f32\nstore max(acc, over=m, per=b) as top : f32\nstore acc + 0.1 * index(w) as y "
      ": f16"};
  std::vector<Case> cases;
  const auto add = [&](const Conv2d& conv, const char* text) {
    Case c = on_gpu("plain stores", text, "");
    c.conv = conv;
    c.seed = 1900 + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  };
  const Conv2d base{.n = 2,
                    .h = 13,
                    .w = 11,
                    .c = 24,
                    .k = 37,
                    .r = 3,
                    .s = 3,
                    .pad = {1, 1, 1, 1},
                    .dtype_x = DType::bf16,
                    .dtype_w = DType::bf16};
  for (const char* text : texts) {
    Conv2d conv = base;
    add(conv, text);
    conv.layout = Layout::nchw;
    add(conv, text);
    conv.k = 80;
    add(conv, text);
    conv.layout = Layout::nhwc, conv.groups = 2, conv.k = 48;
    add(conv, text);
  }
  return cases;
}

// Rows that span tiles, which exchange what they have of them
std::vector<Case> wide_cases() {
  static constexpr const char* texts[] = {
      "store softmax(acc * 0.5 + bias[n], over=n) as y : bf16\nstore max(acc, over=n) as top : f32",
      "operand r[m,n] : bf16\nh = acc + r\nstore h : bf16\nstore rms_norm(h, scale=gamma[n]) as y : bf16\n"
      "store rsqrt(mean(square(h), over=n) + 1e-5) as rstd : f32\nstore sum(h, over=m) as s : f32",
      "store gelu(layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n])) as y : bf16",
      "operand label[m] : i32\nstore mean(-sum(one_hot(label) * log(softmax(acc, over=n)), over=n), over=m) as loss : "
      "f32",
      "store acc - max(acc, over=n) + min(acc, over=n) * sum(acc, over=n) + 0.1 * sum_squares(acc, over=n) as y : f32"};
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    c.seed = 1700 + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  };
  for (const char* text : texts) {
    for (const char* plan : {"", "tile=64x64 order=pingpong", "tile=128x136 order=cooperative",
                             "tile=128x64 cluster=1x2", "load=halo cluster=2x1"}) {
      Case c = on_gpu("rows that span tiles", text, plan);
      c.conv = {.n = 3,
                .h = 17,
                .w = 13,
                .c = 40,
                .k = 272,
                .r = 3,
                .s = 3,
                .pad = {1, 1, 1, 1},
                .dtype_x = DType::bf16,
                .dtype_w = DType::bf16};
      add(c);
    }
    Case c = on_gpu("rows that span tiles", text, "");
    c.product = {.m = 300, .n = 1024, .k = 64, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
    c.conv = plan::as_convolution(*c.product).conv;
    add(c);
  }
  return cases;
}

// Mean 1000, deviation 0.01
std::vector<Case> general_offset_cases() {
  std::vector<Case> cases;
  for (const char* text :
       {"h = acc + bias[n]\nstore variance(h, over=m) as var : f32\nstore mean(h, over=m) as mu : f32",
        "h = acc + bias[n]\nstore variance(h, over=(m,n), per=b, groups=4) as var : f32",
        "store variance(acc + bias[n]) as var : f32",
        "h = acc + bias[n]\nstore mean(h, over=n) as mu : f32\nstore variance(h, over=n) as var : f32"}) {
    Case c = on_gpu("mean 1000, deviation 0.01", text, "");
    c.conv = {.n = 2, .h = 23, .w = 21, .c = 64, .k = 64, .dtype_x = DType::bf16, .dtype_w = DType::bf16};
    c.offset = 1000, c.deviation = 0.01;
    c.seed = 1500 + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace unisono::gpu
