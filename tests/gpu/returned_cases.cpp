// Reductions that elements and rows read again: over groups of a row's channels, and over rows.

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::gpu {

namespace {

Case on_gpu(const char* name, std::string text, std::string plan) {
  Case c{.name = name, .conv = {}, .text = std::move(text), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  return c;
}

Conv2d conv_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k) {
  return {.n = n,
          .h = h,
          .w = w,
          .c = c,
          .k = k,
          .r = 3,
          .s = 3,
          .pad = {1, 1, 1, 1},
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16};
}

Case product_of(const char* name, const char* text, Gemm product, std::string plan) {
  Case c = on_gpu(name, text, std::move(plan));
  product.dtype_a = product.dtype_b = DType::f16;
  c.product = product;
  c.conv = plan::as_convolution(*c.product).conv;
  return c;
}

class Cases {
 public:
  explicit Cases(std::uint64_t seed) : seed_(seed) {}
  void add(Case c) {
    c.seed = seed_ + cases_.size();
    if (is_served(c)) cases_.push_back(std::move(c));
  }
  std::vector<Case> take() && { return std::move(cases_); }

 private:
  std::uint64_t seed_;
  std::vector<Case> cases_;
};

constexpr const char* of_groups[] = {
    "store softmax(acc + bias[n], over=n, groups=6) as y : bf16",
    "store softmax(acc * 0.5, over=n, groups=4) as y : f32\nstore max(acc, over=n, groups=4) as top : f32",
    "h = acc + bias[n]\nmu = mean(h, over=n, groups=8)\nv = variance(h, over=n, groups=8)\n"
    "store (h - mu) * rsqrt(v + 1e-5) * gamma[n] as y : bf16\nstore mu as mu : f32\nstore sqrt(v) as sigma : bf16",
    "operand r[m,n] : bf16\nh = acc * s[m] + r\nstore h as y : bf16\nstore sum(h, over=n, groups=2) as a : f32\n"
    "store min(h, over=n, groups=12) * s[m] + t[b] as b : f32\nstore sum(h * sum_squares(h, over=n, groups=24)) as "
    "total "
    ": f32",
    "store acc * mean(acc, over=n, groups=4) - max(acc, over=n, groups=3) as y : bf16\n"
    "store sum(max(acc, over=n, groups=4), over=n) as tops : f32"};

constexpr const char* read_again[] = {
    // Values of rows, coordinates, results of any type and number beside a normalisation
    "h = acc * s[m] + bias[n]\ny = group_norm(h, groups=4, scale=gamma[n], shift=beta[n])\n"
    "store silu(y) * w[m] + 0.01 * index(h) as y : bf16\nstore h as h : bf16",
    "y = group_norm(acc + t[b,n], groups=2)\nstore y as y : f32\nstore y > 0 as positive : bool\nstore acc as h : "
    "bf16\n"
    "store relu(y) as z : bf16",
    "operand label[m] : i32\ny = instance_norm(acc, scale=gamma[n])\nstore y - one_hot(label) as y : bf16\n"
    "store max(y, over=m, per=b) as top : f32\nstore variance(y, over=m) as v : f32",
    "y = batch_norm(acc, scale=gamma[n], shift=beta[n])\nstore y * w[m] + t[b,n] as y : bf16\n"
    "store 0.9 * rm[n] + 0.1 * mean(acc, over=m) as new_mean : f32\n"
    "store 0.9 * rv[n] + 0.1 * variance(acc, over=m) as new_variance : f32",
    // Reductions that are no normalisation's
    "store softmax(acc, over=m, per=b) as y : bf16",
    "store acc * sigmoid(mean(acc, over=m, per=b) * w1[n]) as y : bf16\nstore acc - max(acc) as z : f32",
    "store acc * rsqrt(mean(square(acc), over=(m,n), per=b) + 1e-5) * s[m] as y : bf16",
    // One after another
    "store group_norm(silu(group_norm(acc, groups=4)), groups=2, scale=gamma[n]) as y : bf16",
    "y = group_norm(acc, groups=4)\nstore softmax(y, over=n) as y : bf16\nstore max(y, over=n) * t[b] + mean(y, per=b) "
    "as m : "
    "f32",
    "store instance_norm(layer_norm(acc)) + batch_norm(acc) as y : bf16",
    "y = group_norm(acc, groups=3) + index(n) * 0.001\nstore softmax(y, over=n, groups=6) as y : f32"};

}  // namespace

std::vector<Case> grouped_cases() {
  Cases cases(2300);
  for (const char* text : of_groups) {
    const char* name = "groups of a row's channels";
    Case c = on_gpu(name, text, "");
    c.conv = conv_of(3, 17, 13, 40, 72);
    cases.add(c);
    c.conv.k = 384;  // several tiles
    for (const char* plan : {"", "tile=64x192 order=cooperative", "load=halo", "split=on", "cluster=2x1"}) {
      c.options.plan = plan;
      cases.add(c);
    }
    c.conv = conv_of(2, 11, 9, 13, 48), c.options.plan = "";
    cases.add(c);
    c.conv.layout = Layout::nchw;
    cases.add(c);
    c.conv.layout = Layout::nhwc, c.conv.k = 120;
    cases.add(c);
    cases.add(product_of(name, text, {.m = 77, .n = 72, .k = 64, .transpose_b = true}, ""));
    cases.add(product_of(name, text, {.batch = 3, .m = 130, .n = 1536, .k = 64}, ""));
    cases.add(product_of(name, text, {.m = 1, .n = 24, .k = 8, .transpose_b = true}, ""));
  }
  for (const char* text :
       {"store softmax(acc, over=n, groups=5) as y : bf16",
        "store acc - mean(acc, over=n, groups=37) as y : f32\nstore max(acc, over=n, groups=5) as t : f32"}) {
    Case c = on_gpu("groups of odd width", text, "");
    c.conv = conv_of(2, 9, 7, 24, 185);
    cases.add(c);
  }
  return std::move(cases).take();
}

std::vector<Case> returned_cases() {
  Cases cases(2400);
  for (const char* text : read_again) {
    const char* name = "reductions over rows, read again";
    for (const char* plan : {"", "order=cooperative", "load=halo tile=128x64", "load=im2col order=pingpong tile=64x64",
                             "cluster=2x1", "order=pingpong2"}) {
      Case c = on_gpu(name, text, plan);
      c.conv = conv_of(3, 17, 13, 40, 72);
      cases.add(c);
      c.conv = conv_of(2, 33, 29, 24, 192);
      cases.add(c);
    }
    for (const char* plan : {"", "order=cooperative", "order=pingpong tile=64x32", "cluster=2x1"}) {
      Case c = on_gpu("more tiles than are in flight, read again", text, plan);
      c.conv = conv_of(2, 203, 251, 24, 72);
      cases.add(c);
      c.options.plan += c.options.plan.empty() ? "spill=f32" : " spill=f32";  // whatever fits
      c.conv = conv_of(3, 17, 13, 40, 72);
      cases.add(c);
    }
    Case c = on_gpu(name, text, "");
    c.conv = conv_of(2, 11, 9, 13, 36);
    cases.add(c);
    c.conv.layout = Layout::nchw;
    cases.add(c);
    cases.add(product_of(name, text, {.m = 300, .n = 360, .k = 64, .transpose_b = true}, ""));
    cases.add(product_of(name, text, {.batch = 3, .m = 77, .n = 96, .k = 64}, ""));
    cases.add(product_of(name, text, {.m = 1, .n = 24, .k = 8, .transpose_b = true}, ""));
  }
  return std::move(cases).take();
}

// One small case of each
std::vector<Case> small_returned_cases() {
  Cases cases(2500);
  for (const char* text : {of_groups[1], of_groups[2], of_groups[4], read_again[0], read_again[3], read_again[8]})
    for (const char* plan : {"order=cooperative tile=128x48", "load=halo order=pingpong"}) {
      Case c = on_gpu("sanitizer: read again", text, plan);
      c.conv = conv_of(2, 13, 11, 24, 48);
      cases.add(std::move(c));
    }
  // Several tiles a warpgroup on the emulated GPU, which wait in memory
  for (const char* text : {read_again[3], read_again[8], read_again[9]})
    for (const char* plan : {"spill=f32 order=cooperative tile=128x24", "spill=f32 order=pingpong tile=64x24"}) {
      Case c = on_gpu("sanitizer: read again from memory", text, plan);
      c.conv = conv_of(2, 33, 41, 16, 48);
      cases.add(std::move(c));
    }
  return std::move(cases).take();
}

}  // namespace unisono::gpu
