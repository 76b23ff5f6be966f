// Reductions that elements and rows read again: over groups of channels, and over rows.

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
    // The backward pass of a group norm and what came behind it: two sums of a group, and three that are stored
    "operand x[m,n] : bf16\nh = (x - mu[b,g4]) * rstd[b,g4]\nz = h * gamma[n] + beta[n]\ns = sigmoid(z)\n"
    "dz = acc * (s * (1 + z * (1 - s)))\ndh = dz * gamma\n"
    "dx = rstd * (dh - mean(dh, over=(m,n), per=b, groups=4) - h * mean(dh * h, over=(m,n), per=b, groups=4))\n"
    "store dx as dx : bf16\nstore sum(dz * h, over=m) as dgamma : f32\nstore sum(dz, over=m) as dbeta : f32\n"
    "store sum(dx, over=m) as dbias : f32",
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
    const char* name = "groups of channels";
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
                             "cluster=2x1", "order=pingpong2", "mode=general", "mode=resident", "mode=streamed"}) {
      Case c = on_gpu(name, text, plan);
      c.conv = conv_of(3, 17, 13, 40, 72);
      cases.add(c);
      c.conv = conv_of(2, 33, 29, 24, 192);
      cases.add(c);
    }
    for (const char* plan :
         {"", "order=cooperative", "order=pingpong tile=64x32", "cluster=2x1", "mode=streamed order=pingpong2"}) {
      Case c = on_gpu("more tiles than are in flight, read again", text, plan);
      c.conv = conv_of(2, 203, 251, 24, 72);
      cases.add(c);
      c.options.plan += c.options.plan.empty() ? "spill=f32" : " spill=f32";  // whatever fits
      c.conv = conv_of(3, 17, 13, 40, 72);
      cases.add(c);
    }
    for (const char* plan : {"spill=f32 load=halo", "spill=f32 load=im2col cluster=2x1"}) {
      Case c = on_gpu("more tiles than are in flight, channels first", text, plan);
      c.conv = conv_of(2, 200, 256, 24, 72);
      c.conv.layout = Layout::nchw;
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
  // Rows of more tiles than are in flight
  for (const char* text : {"store softmax(acc + bias[n], over=n) as y : bf16",
                           "store layer_norm(acc, scale=gamma[n]) * s[m] as y : f32\nstore sum(acc, over=m) as t : f32",
                           "store rms_norm(acc) + index(n) * 0.0001 as y : bf16",
                           "y = batch_norm(acc)\nstore softmax(y, over=n) as y : bf16"})
    for (const char* plan : {"", "spill=f32 order=cooperative tile=128x64", "spill=f32 tile=64x64 cluster=1x2"}) {
      const char* name = "rows of more tiles than are in flight";
      cases.add(product_of(name, text, {.m = 300, .n = 70000, .k = 64, .transpose_b = true}, plan));
      cases.add(product_of(name, text, {.m = 77, .n = 1000, .k = 72}, plan));
    }
  return std::move(cases).take();
}

namespace {

// Reductions of several values that tiles exchange, for which one value waits: of registers and of memory, in units of
// an odd number of channels and a ragged tile across; sums, means, extremes, and stored reductions on both sides
std::vector<Case> small_exchanged_cases() {
  std::vector<Case> cases;
  for (const char* text :
       {read_again[7], "store acc * sigmoid(mean(acc, over=m, per=b) * w1[n]) as y : bf16",
        "operand x[m,n] : bf16\nd = acc - x + bias[n]\na = sum_squares(d, over=(m,n), per=b, groups=8)\n"
        "t = max(d * x, over=(m,n), per=b, groups=8)\nu = min(d, over=(m,n), per=b, groups=8)\n"
        "store d * rsqrt(a + 1) + t * 0.01 - u as y : f32\nstore d + u as z : bf16\n"
        "store variance(d * t, over=m) as v : f32\nstore sum(d) as total : f32"})
    for (const char* plan : {"mode=resident order=pingpong tile=64x32", "mode=resident order=cooperative tile=128x40",
                             "mode=streamed order=pingpong tile=64x40 load=halo",
                             "mode=streamed order=cooperative tile=128x24 load=im2col"}) {
      Case c = on_gpu("sanitizer: exchanged", text, plan);
      c.conv = conv_of(2, 33, 29, 16, 72);
      c.seed = 2700 + cases.size();
      cases.push_back(std::move(c));
    }
  // Over all images: what is reduced is one number
  for (const char* plan : {"mode=resident order=pingpong tile=64x32", "mode=streamed order=cooperative tile=128x24"}) {
    Case c = on_gpu("sanitizer: exchanged by all images",
                    "store acc * rsqrt(mean(acc * acc, over=(m,n)) + 1) - min(acc, over=(m,n)) as y : bf16", plan);
    c.conv = conv_of(2, 17, 13, 16, 72);
    c.seed = 2700 + cases.size();
    cases.push_back(std::move(c));
  }
  return cases;
}

// Tiles of several kinds that wait in memory, a few for each warpgroup of the emulated GPU. None is left out if it is
// refused.
std::vector<Case> small_spilled_cases() {
  const char* const name = "sanitizer: read again from memory";
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    c.seed = 2600 + cases.size();
    cases.push_back(std::move(c));
  };
  const auto of_image = [&](const char* text, const char* plan, const Conv2d& conv) {
    Case c = on_gpu(name, text, plan);
    c.conv = conv;
    return c;
  };
  // Nine tiles across, of which each merges its share of the rows; clusters, one of them with a tile beyond the
  // channels
  add(of_image(read_again[9], "spill=f32 order=pingpong tile=64x8", conv_of(1, 19, 21, 16, 72)));
  add(of_image(read_again[10], "spill=f32 order=cooperative tile=128x40 cluster=1x2", conv_of(1, 57, 57, 8, 120)));
  // Reductions of rows of one tile, on either side of what elements read, and groups of channels
  const Conv2d image = conv_of(1, 57, 57, 8, 48);
  add(
      of_image("y = group_norm(acc * rsqrt(mean(square(acc), over=n) + 1e-5), groups=4)\n"
               "z = y - max(y, over=n) * sigmoid(mean(y, over=m, per=b))\nstore z * sum(z, over=n) as y : bf16",
               "spill=f32 order=pingpong tile=64x48", image));
  add(of_image(read_again[11], "spill=f32 order=pingpong tile=64x24", image));
  // Planes beside: halo tiles, whose results leave by lanes' stores
  Conv2d planes = conv_of(1, 56, 56, 8, 48);
  planes.layout = Layout::nchw;
  add(of_image(read_again[8], "spill=f32 load=halo order=pingpong tile=64x16", planes));
  // Two products; phases of a transposed convolution
  const Gemm dual{.m = 1700, .n = 48, .k = 40, .transpose_b = true, .products = 2};
  add(product_of(name, "store group_norm(silu(acc0) * acc1 + instance_norm(acc1), groups=2) as y : bf16", dual,
                 "spill=f32 order=pingpong tile=64x24"));
  Case phases = on_gpu(name, read_again[8], "spill=f32 order=pingpong tile=64x16");
  ConvTranspose2d transposed;
  transposed.n = 1, transposed.h = 21, transposed.w = 25, transposed.c = 16, transposed.k = 32;
  transposed.r = transposed.s = 4, transposed.stride = {2, 2}, transposed.pad = {1, 1, 1, 1};
  transposed.dtype_x = transposed.dtype_w = DType::bf16;
  phases.transposed = transposed;
  phases.conv = plan::as_convolution(transposed).conv;
  add(phases);
  // Rows of more tiles than are in flight: one statistic after another, and beside reductions over rows
  const Gemm wide{.m = 150, .n = 432, .k = 40, .transpose_b = true};
  add(product_of(name, "store softmax(acc + bias[n], over=n) as y : bf16", wide, "order=pingpong tile=64x8"));
  add(product_of(name, "y = batch_norm(acc)\nstore softmax(y, over=n) as y : bf16\nstore max(y, over=n) as top : f32",
                 wide, "spill=f32 order=pingpong tile=64x8"));
  // The input of a normalisation behind it
  add(of_image("h = acc + bias[n]\nstore h + group_norm(h, groups=4) as y : bf16", "mode=general spill=f32 tile=64x16",
               image));
  return cases;
}

}  // namespace

// One small case of each
std::vector<Case> small_returned_cases() {
  Cases cases(2500);
  for (const char* text :
       {of_groups[1], of_groups[2], of_groups[4], read_again[0], read_again[3], read_again[7], read_again[9]})
    for (const char* plan : {"order=cooperative tile=128x48", "load=halo order=pingpong"}) {
      Case c = on_gpu("sanitizer: read again", text, plan);
      c.conv = conv_of(2, 13, 11, 24, 48);
      cases.add(std::move(c));
    }
  // Several tiles a warpgroup on the emulated GPU, which wait in memory
  for (const char* text : {read_again[3], read_again[7], read_again[9], read_again[10]})
    for (const char* plan : {"spill=f32 order=cooperative tile=128x24", "spill=f32 order=pingpong tile=64x24"}) {
      Case c = on_gpu("sanitizer: read again from memory", text, plan);
      c.conv = conv_of(2, 33, 41, 16, 48);
      cases.add(std::move(c));
    }
  std::vector<Case> all = std::move(cases).take();
  for (Case& c : small_spilled_cases()) all.push_back(std::move(c));
  for (Case& c : small_exchanged_cases()) all.push_back(std::move(c));
  return all;
}

}  // namespace unisono::gpu
