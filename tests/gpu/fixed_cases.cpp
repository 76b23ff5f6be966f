// Cases that are listed rather than drawn.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "gpu/case.hpp"
#include "plan/as_convolution.hpp"

namespace unisono::gpu {

namespace {

constexpr const char* block =
    "store silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])) as y : bf16";

Case on_gpu(std::string name, const Conv2d& conv, std::string text, std::string plan = "") {
  Case c{.name = std::move(name), .conv = conv, .text = std::move(text), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  return c;
}

Conv2d conv(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t taps,
            DType type = DType::bf16) {
  const std::int64_t pad = taps / 2;
  return {.n = n,
          .h = h,
          .w = w,
          .c = c,
          .k = k,
          .r = taps,
          .s = taps,
          .pad = {pad, pad, pad, pad},
          .dtype_x = type,
          .dtype_w = type};
}

Case product_on_gpu(std::string name, Gemm product, std::string text, std::string plan = "") {
  product.dtype_a = product.dtype_b = DType::bf16;
  Case c = on_gpu(std::move(name), plan::as_convolution(product).conv, std::move(text), std::move(plan));
  c.product = product;
  return c;
}

}  // namespace

// The block shapes of docs/performance.md
std::vector<Case> block_cases() {
  const Conv2d shapes[] = {
      conv(2, 64, 64, 320, 320, 3),   conv(2, 32, 32, 640, 640, 3),  conv(2, 16, 16, 1280, 1280, 3),
      conv(8, 64, 64, 320, 320, 3),   conv(8, 32, 32, 640, 640, 3),  conv(16, 128, 128, 128, 128, 3),
      conv(4, 256, 256, 128, 128, 3), conv(32, 56, 56, 256, 256, 3), conv(8, 64, 64, 320, 320, 1),
      conv(1, 512, 512, 128, 128, 3), conv(8, 256, 256, 64, 64, 3)};
  std::vector<Case> cases;
  for (const Conv2d& shape : shapes) {
    cases.push_back(on_gpu("block", shape, block));
    cases.back().seed = 100 + cases.size();
  }
  return cases;
}

// Every elementwise operation, on arguments where it is defined
std::vector<Case> operation_cases() {
  static constexpr const char* values[] = {"x + bias",
                                           "x - bias",
                                           "x * bias",
                                           "x / (bias * bias + 0.5)",
                                           "min(x, bias)",
                                           "max(x, bias)",
                                           "pow(abs(x) + 0.1, bias)",
                                           "select(x < bias, x, bias)",
                                           "select(x <= bias, x, -x)",
                                           "select(x > bias, x, 0.5)",
                                           "select(x >= bias, x, 2 * bias)",
                                           "select(x == bias, 1, x)",
                                           "select(x != bias, x, 1)",
                                           "select(x > 0 & bias > 0, x, bias)",
                                           "select(x > 0 | bias > 0, x, bias)",
                                           "select(!(x > bias), x, bias)",
                                           "fma(x, bias, bias)",
                                           "-x",
                                           "abs(x)",
                                           "sqrt(abs(x))",
                                           "rsqrt(abs(x) + 0.01)",
                                           "reciprocal(abs(x) + 0.1)",
                                           "square(x)",
                                           "exp(x)",
                                           "log(abs(x) + 0.01)",
                                           "log1p(abs(x))",
                                           "tanh(x)",
                                           "erf(x)",
                                           "sin(x)",
                                           "cos(x)",
                                           "sigmoid(x)",
                                           "relu(x)",
                                           "relu6(x * 4)",
                                           "leaky_relu(x, slope=0.1)",
                                           "elu(x, alpha=0.7)",
                                           "silu(x)",
                                           "mish(x)",
                                           "gelu(x)",
                                           "gelu_tanh(x)",
                                           "hardsigmoid(x)",
                                           "hardsigmoid(x, 0.2, beta=0.4)",
                                           "hardswish(x * 2)",
                                           "softplus(x)",
                                           "logsigmoid(x)",
                                           "clamp(x, -0.5, 0.75)",
                                           "clamp(x, lower=0)",
                                           "cast(x, bf16) * 3",
                                           "cast(x, f16) + bias",
                                           "cast(x * 8, i32) * 2 + x",
                                           "cast(x > 0, f32) + x",
                                           "warp(x, bias)",
                                           "leaky_relu(x, slope=bias)",
                                           "elu(x, alpha=bias)",
                                           "hardsigmoid(x, alpha=bias, beta=0.4)",
                                           "clamp(x, lower=bias - 0.5, upper=bias)"};
  std::vector<Case> cases;
  for (const char* value : values) {
    for (const bool accurate : {false, true}) {
      const DType type = cases.size() % 3 == 0 ? DType::f16 : DType::bf16;
      cases.push_back(on_gpu(fmt::format("operation {}", value), conv(1, 7, 9, 16, 24, 1, type),
                             fmt::format("operand bias[n]\nx = acc * 2\nstore {} as y : {}", value, to_string(type)),
                             "tile=128x64 load=im2col"));
      cases.back().options.accurate = accurate;
      cases.back().seed = 300 + cases.size();
    }
  }
  return cases;
}

// Every kind of operand and store
std::vector<Case> operand_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, const char* text, const char* plan = "") -> Case& {
    cases.push_back(on_gpu(name, conv(2, 11, 13, 24, 40, 3), text, plan));
    cases.back().seed = 500 + cases.size();
    return cases.back();
  };
  add("scalar by value", "store acc * alpha[] + 1 as y : bf16").scalars["alpha"] = 0.3;
  add("scalar with a default", "operand alpha = 0.5\nstore acc * alpha as y : bf16");
  add("scalar in memory", "store acc * alpha[] as y : bf16").options.device_scalars = {"alpha"};
  auto& integer = add("integer scalar", "operand shift : i32\nstore acc + cast(shift * 3, f32) as y : bf16");
  integer.scalars["shift"] = -2;
  auto& flag = add("bool scalar", "operand flag : bool\nstore select(flag, acc, -acc) as y : bf16");
  flag.scalars["flag"] = 1;
  add("row vectors of three types", "operand p[n] : bf16\noperand q[n] : f16\nstore (acc + p) * q + r[n] as y : bf16");
  add("integers and bools a channel",
      "operand i[n] : i32\noperand f[n] : bool\nstore select(f, acc, acc * cast(i, f32)) as y : bf16");
  add("per image", "store acc * g[b] + t[b,n] as y : bf16");
  add("per image, 16 bits", "operand t[b,n] : bf16\noperand g[b] : f16\nstore acc * g + t as y : f16").conv.dtype_x =
      DType::f16;
  cases.back().conv.dtype_w = DType::f16;
  add("full tensors of three types",
      "operand p[m,n] : bf16\noperand q[m,n] : f16\nstore (acc + p) * q + r[m,n] as y : bf16");
  auto& source =
      add("the source C, alpha and beta", "operand c[m,n] : bf16\nstore alpha[] * acc + beta[] * c as y : bf16");
  source.scalars = {{"alpha", 0.75}, {"beta", -1.5}};
  auto& wide = add("the source C in f32", "store alpha[] * acc + beta[] * c[m,n] as y : f32");
  wide.scalars = {{"alpha", 0.75}, {"beta", -1.5}};
  add("full tensors of integers and bools",
      "operand i[m,n] : i32\noperand keep[m,n] : bool\nstore select(keep, acc, acc * cast(i, f32)) as y : bf16");
  for (const char* plan : {"swap=on tile=128x64", "mode=streamed", "mode=streamed swap=on tile=128x64"})
    add("full tensors of integers and bools",
        std::string_view(plan).starts_with("swap")
            ? "operand i[m,n] : i32\noperand keep[m,n] : bool\nstore select(keep, acc, acc * cast(i, f32)) as y : bf16"
            : "operand i[m,n] : i32\noperand keep[m,n] : bool\ny = group_norm(acc + cast(i, f32), groups=4)\n"
              "store select(keep, y, y * cast(i, f32)) as y : bf16",
        plan);
  add("undeclared storage", "store acc + p[m,n] + v[n] as y : bf16").options.storage = {{"p", DType::bf16},
                                                                                        {"v", DType::f16}};
  add("extents", "store acc / cast(extent(h) + extent(w) + extent(n) + extent(b), f32) as y : bf16");
  add("a value used twice", "h = silu(acc + bias[n])\nstore h * h + h as y : bf16");
  add("second store", "h = acc + bias[n]\nstore h : bf16\nstore relu(h) as y : bf16");
  add("second store of another type", "h = acc + bias[n]\nstore h : f16\nstore relu(h) as y : bf16");
  for (const char* mode :
       {"mode=resident", "mode=resident swap=on tile=128x64", "mode=streamed", "mode=streamed swap=on tile=128x64"}) {
    add("second store ahead",
        "h = acc + bias[n]\nstore h : bf16\nstore silu(group_norm(h, groups=4, scale=gamma[n])) as y : bf16", mode);
    add("second store behind",
        "y = silu(group_norm(acc + bias[n], groups=4, scale=gamma[n]))\nstore y + r[m,n] as z : bf16\nstore y : bf16",
        mode);
    add("statistics",
        "h = acc + bias[n]\nstore group_norm(h, groups=8, eps=1e-4) as y : bf16\nstore mean(h, over=(m,n), per=b, "
        "groups=8) as mu : f32\n"
        "store variance(h, over=(m,n), per=b, groups=8) as var : f32\n"
        "store rsqrt(variance(h, over=(m,n), per=b, groups=8) + 1e-4) as rstd : bf16",
        mode);
    add("columns ahead and behind",
        "h = acc * a[n] + t[b,n]\nstore group_norm(h, groups=5, scale=gamma[n], shift=s[b,n]) * c[n] + d[b,n] as y : "
        "bf16",
        mode);
    add("tensors ahead and behind",
        "operand p[m,n] : bf16\noperand q[m,n] : bf16\nstore gelu(group_norm(acc + p, groups=10)) + q as y : bf16",
        mode);
  }
  for (const char* mode : {"tile=256x40 mode=resident", "swap=on tile=128x64 mode=resident",
                           "swap=on tile=128x64 mode=streamed", "tile=256x40 mode=streamed"})
    add("a function of bits, a normalisation",
        "h = fold(acc + bias[n])\nstore h : bf16\nstore silu(group_norm(h, groups=4, scale=gamma[n])) as y : bf16",
        mode);
  add("a function of bits, a normalisation of a pixel",
      "h = fold(acc + bias[n])\nstore h : bf16\nstore silu(layer_norm(h, scale=gamma[n])) as y : bf16", "tile=256x40");
  add("a function of bits, no normalisation", "store fold(acc) as y : bf16", "tile=256x40");
  add("constants of the graph", "store group_norm(acc * 3 + 1, groups=4, eps=0.5) * 2 - 1 as y : bf16");
  return cases;
}

// Over the channels of a pixel: narrow, odd and full tiles, images that no tile divides
std::vector<Case> pixel_cases() {
  static constexpr const char* texts[] = {"store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n]) as y : {0}",
                                          "operand r[m,n] : {0}\nh = acc + bias[n]\nstore h : {0}\nstore "
                                          "silu(layer_norm(h, scale=gamma[n], shift=beta[n])) + r "
                                          "as y : {0}",
                                          "operand r[m,n] : {0}\ny = layer_norm(acc * g[b] + r, scale=1 + s[b,n], "
                                          "eps=1e-6)\nstore y : {0}\nstore gelu(y) as z "
                                          ": {0}"};
  std::vector<Case> cases;
  const auto add = [&](const Conv2d& shape, const char* text, const char* plan) {
    Case c = on_gpu("layer norm", shape, fmt::format(fmt::runtime(text), to_string(shape.dtype_x)), plan);
    c.seed = 900 + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  };
  for (const char* text : texts)
    for (const std::int64_t channels : {8, 64, 72, 160, 256})
      for (const DType type : {DType::bf16, DType::f16}) add(conv(3, 17, 13, 40, channels, 3, type), text, "");
  for (const char* plan : {"load=im2col", "load=halo", "order=pingpong", "order=cooperative", "order=pingpong2",
                           "split=on", "cluster=2x1", "tile=128x96", "tile=256x64", "tile=64x256"})
    add(conv(2, 19, 21, 72, 64, 3), texts[1], plan);
  // Either second store, two matrix instructions down a warpgroup's rows and one, alone and in turns, whole and split
  for (const char* text : {texts[1], texts[2]})
    for (const char* plan :
         {"tile=256x64 load=im2col split=off", "tile=256x64 load=halo split=off", "tile=256x64 load=im2col split=on",
          "tile=256x64 load=halo split=on", "tile=256x64 cluster=2x1", "tile=128x64 order=pingpong split=off",
          "tile=128x64 order=pingpong split=on", "tile=128x64 order=cooperative split=off",
          "tile=128x64 order=cooperative split=on", "tile=128x64 order=pingpong2", "tile=128x128 order=cooperative"})
      for (const DType type : {DType::bf16, DType::f16}) {
        add(conv(2, 19, 21, 72, 64, 3, type), text, plan);
        add(conv(5, 31, 29, 128, 64, 1, type), text, plan);
      }
  return cases;
}

// Statistics of all images, in both modes, with running statistics beside them
std::vector<Case> batch_cases() {
  static constexpr const char* texts[] = {
      "h = acc + bias[n]\nmu = mean(h, over=m)\nvar = variance(h, over=m)\n"
      "store relu(batch_norm(h, scale=gamma[n], shift=beta[n])) as y : bf16\n"
      "store 0.9 * old_mean[n] + 0.1 * mu as new_mean : f32\n"
      "store 0.9 * old_variance[n] + 0.1 * var * extent(m) / (extent(m) - 1) as new_variance : f32",
      "operand r[m,n] : bf16\nh = acc * s[n]\nstore h : bf16\nstore silu(batch_norm(h, scale=gamma[n], shift=beta[n], "
      "eps=1e-3) + r) as y : bf16",
      "h = acc + bias[n]\nstore (h - mean(h, over=(m,n), groups=4)) * rsqrt(variance(h, over=(m,n), groups=4) + 1e-5) "
      "as y : bf16\n"
      "store mean(h, over=(m,n), groups=4) as mu : f32"};
  std::vector<Case> cases;
  const auto add = [&](const Conv2d& shape, const char* text, const char* plan) {
    // The reference knows of values that wait in 16 bits for batch_norm, not for what does the same
    if (text == texts[2] && std::string_view(plan).find("resident") == std::string_view::npos) return;
    Case c = on_gpu("batch norm", shape, text, plan);
    c.seed = 1300 + cases.size();
    if (is_served(c)) cases.push_back(std::move(c));
  };
  for (const char* text : texts)
    for (const char* plan : {"", "mode=resident", "mode=streamed", "mode=streamed order=cooperative",
                             "mode=resident swap=on tile=128x64", "mode=streamed swap=on tile=128x64",
                             "mode=resident split=on", "mode=streamed order=pingpong2", "mode=resident cluster=2x1"}) {
      add(conv(4, 17, 13, 40, 64, 3), text, plan);
      add(conv(16, 31, 29, 64, 160, 1), text, plan);
    }
  add(conv(1, 31, 29, 64, 160, 3), texts[0], "load=halo");
  return cases;
}

// Mean 1000, deviation 0.01
std::vector<Case> offset_cases() {
  std::vector<Case> cases;
  for (const char* mode :
       {"mode=resident load=im2col", "mode=resident load=halo", "mode=resident split=on", "mode=streamed",
        "swap=on tile=128x64 mode=resident", "swap=on tile=128x64 mode=streamed", "family=plain"}) {
    for (const auto& shape : {conv(2, 40, 36, 64, 64, 3), conv(3, 16, 16, 128, 320, 1)}) {
      Case c = on_gpu(
          "mean 1000, deviation 0.01", shape,
          "store group_norm(acc + bias[n], groups=16, scale=gamma[n], shift=beta[n], eps=1e-12) as y : bf16", mode);
      c.offset = 1000, c.deviation = 0.01;
      c.seed = 700 + cases.size();
      if (is_served(c)) cases.push_back(std::move(c));
    }
  }
  for (const std::int64_t channels : {8, 64, 160, 256})
    for (const char* plan : {"", "load=im2col split=on", "family=plain"}) {
      Case c = on_gpu("mean 1000, deviation 0.01, of a pixel", conv(2, 11, 9, 64, channels, 3),
                      "store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n], eps=1e-12) as y : bf16", plan);
      c.offset = 1000, c.deviation = 0.01;
      c.seed = 700 + cases.size();
      if (is_served(c)) cases.push_back(std::move(c));
    }
  return cases;
}

std::vector<Case> plan_cases() {
  return {on_gpu("all plans, bare", conv(2, 20, 24, 72, 168, 3), "store silu(acc + bias[n]) as y : bf16"),
          on_gpu("all plans, normalised", conv(3, 24, 24, 64, 160, 3),
                 "store silu(group_norm(acc + bias[n], groups=16, scale=gamma[n], shift=beta[n])) as y : bf16"),
          on_gpu("all plans, of a pixel", conv(2, 19, 21, 72, 64, 3),
                 "operand r[m,n] : bf16\nh = acc + bias[n]\nstore h : bf16\nstore silu(layer_norm(h, scale=gamma[n], "
                 "shift=beta[n])) + r as y : bf16"),
          product_on_gpu("all plans, A (k, m) and B (k, n)",
                         {.batch = 3, .m = 200, .n = 176, .k = 168, .transpose_a = true},
                         "store silu(acc + bias[n]) as y : bf16"),
          on_gpu("all plans, deep", conv(1, 8, 8, 640, 320, 3), "store acc + bias[n] as y : bf16")};
}

families::sm90_conv::ConvConfig conv_config(const families::Plan& plan) {
  const auto* conv = dynamic_cast<const families::sm90_conv::ConvPlan*>(&plan);
  return conv != nullptr ? conv->config : families::sm90_conv::ConvConfig{};
}

std::vector<families::PlanPointer> sample_of_plans(const lower::Problem& problem) {
  constexpr std::size_t wanted = 48;
  std::vector<families::PlanPointer> legal, sample;
  for (const families::Candidate& x : families::candidates({problem.task, problem.forms, planning_device()}).value())
    if (x.is_legal()) legal.push_back(x.plan);
  std::map<std::string, int> seen;
  const auto features = [](const families::sm90_conv::ConvConfig& k) {
    return std::vector{fmt::format("tile {}x{}", k.tile.m, k.tile.n),
                       fmt::format("cluster {}x{}", k.schedule.cluster.m, k.schedule.cluster.n),
                       fmt::format("order {} {}", k.schedule.warpgroups(), k.schedule.consumer_groups()),
                       fmt::format("mode {} two-dimensional {}", static_cast<int>(k.mode()), k.two_dimensional()),
                       fmt::format("depth {} split {}", k.tile.k, k.schedule.split),
                       fmt::format("buffers {}", k.features.store_buffers),
                       fmt::format("fetch {} swap {}", k.features.fetch.value_or(0), k.schedule.swap)};
  };
  const auto take = [&](const families::PlanPointer& p) {
    for (const std::string& f : features(conv_config(*p))) ++seen[f];
    sample.push_back(p);
  };
  std::vector<bool> taken(legal.size());
  for (std::size_t i = 0; i < legal.size(); ++i) {
    const auto all = features(conv_config(*legal[i]));
    if (std::any_of(all.begin(), all.end(), [&](const std::string& f) { return seen[f] < 2; }))
      take(legal[i]), taken[i] = true;
  }
  const std::size_t step = std::max<std::size_t>(1, legal.size() / wanted);
  for (std::size_t i = 0; i < legal.size() && sample.size() < wanted; i += step)
    if (!taken[i]) take(legal[i]);
  return sample;
}

std::vector<Case> sanitizer_cases() {
  std::vector<Case> cases;
  for (const char* plan : {"mode=resident load=im2col", "mode=resident load=halo", "swap=on tile=128x64 mode=resident",
                           "swap=on tile=256x64 mode=streamed load=halo", "mode=streamed load=im2col",
                           "mode=streamed load=halo", "mode=resident split=on", "mode=resident cluster=1x2"}) {
    Case c = on_gpu("sanitizer", conv(2, 17, 19, 64, 160, 3),
                    "h = acc + bias[n]\nstore h : bf16\nstore silu(group_norm(h, groups=16, scale=gamma[n], "
                    "shift=beta[n])) + r[m,n] as y : bf16\nstore mean(h, over=(m,n), per=b, groups=16) as mu : f32\n"
                    "store variance(h, over=(m,n), per=b, groups=16) as var : f32",
                    plan);
    if (is_served(c)) cases.push_back(std::move(c));
  }
  cases.push_back(on_gpu("sanitizer", conv(2, 17, 19, 64, 160, 3), "store silu(acc + bias[n]) + r[m,n] as y : bf16"));
  // Groups of 47 and 46 channels that tiles cut, with more units than threads read them
  struct Cut {
    int channels;
    const char *text, *plan;
  };
  static constexpr const char *norm = "store silu(group_norm(acc + bias[n], groups=8, scale=gamma[n])) as y : bf16",
                              *mean =
                                  "h = acc + bias[n]\nstore h * rsqrt(mean(square(h), over=(m,n), per=b, groups=8) "
                                  "+ 1e-5) as y : bf16";
  for (const Cut& cut :
       {Cut{376, norm, "mode=resident tile=128x168 split=off"},
        Cut{376, norm, "mode=resident tile=64x96 raster=channels order=pingpong"},
        Cut{376, norm, "mode=resident tile=128x192 swap=on"}, Cut{368, norm, "mode=streamed tile=128x168"},
        Cut{376, norm, "mode=streamed tile=128x192 swap=on"}, Cut{376, mean, "mode=resident tile=128x152"},
        Cut{376, mean, "mode=streamed tile=128x88"}})
    cases.push_back(on_gpu("groups that tiles cut", conv(2, 17, 19, 40, cut.channels, 1), cut.text, cut.plan));
  for (Case& c : small_resampled_cases()) cases.push_back(std::move(c));
  for (Case& c : small_fetched_cases()) cases.push_back(std::move(c));
  for (Case& c : small_returned_cases()) cases.push_back(std::move(c));
  for (Case& c : small_stationary_cases()) cases.push_back(std::move(c));
  for (Case& c : small_second_pass_cases()) cases.push_back(std::move(c));
  for (Case& c : small_row_cases()) cases.push_back(std::move(c));
  for (Case& c : small_group_cases()) cases.push_back(std::move(c));
  for (Case& c : small_moment_cases()) cases.push_back(std::move(c));
  for (Case& c : small_deep_cases()) cases.push_back(std::move(c));
  for (Case& c : small_planes_cases()) cases.push_back(std::move(c));
  for (Case& c : small_dual_cases()) cases.push_back(std::move(c));
  for (Case& c : small_placed_cases()) cases.push_back(std::move(c));
  for (Case& c : small_phase_cases()) cases.push_back(std::move(c));
  for (Case& c : small_volume_cases()) cases.push_back(std::move(c));
  for (Case& c : small_flipped_cases()) cases.push_back(std::move(c));
  for (Case& c : small_im2col_smem_cases()) cases.push_back(std::move(c));
  for (const char* plan : {"load=gather", "load=gather mode=resident", "load=gather mode=streamed"}) {
    Case c = on_gpu("sanitizer", conv(2, 17, 19, 13, 160, 3), "store silu(acc + bias[n]) as y : bf16", plan);
    if (c.options.plan != "load=gather")
      c.text = "store silu(group_norm(acc + bias[n], groups=16, scale=gamma[n])) as y : bf16";
    cases.push_back(std::move(c));
  }
  for (const char* plan : {"load=halo mode=resident", "load=halo mode=streamed", "swap=on tile=128x64 mode=resident"}) {
    Case c =
        on_gpu("sanitizer", {},
               "h = acc + bias[n]\nstore h : bf16\nstore silu(group_norm(h, groups=4, scale=gamma[n])) + r[m,n] as "
               "y : bf16",
               plan);
    c.transposed = {.n = 2, .h = 9, .w = 10, .c = 64, .k = 96, .r = 3, .s = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
    c.transposed->dtype_x = c.transposed->dtype_w = DType::bf16;
    c.conv = plan::as_convolution(*c.transposed).conv;
    cases.push_back(std::move(c));
  }
  Conv2d depthwise = conv(2, 17, 19, 37, 37, 3);
  depthwise.groups = 37;
  cases.push_back(on_gpu("sanitizer", depthwise, "store silu(acc + bias[n]) as y : bf16", "load=gather tile=128x32"));
  for (Case& c : small_depthwise_cases()) cases.push_back(std::move(c));
  for (Case& c : small_plain_cases()) cases.push_back(std::move(c));
  cases.push_back(product_on_gpu("sanitizer", {.m = 77, .n = 131, .k = 99},
                                 "store silu(acc + bias[n]) + r[m,n] as y : bf16", "load=gather tile=64x64"));
  Conv2d words = conv(2, 17, 19, 36, 160, 3);
  words.dtype_x = words.dtype_w = DType::f32;
  cases.push_back(on_gpu("sanitizer", words, "store acc + bias[n] as y : f32", "load=im2col tile=128x160"));
  cases.push_back(
      on_gpu("sanitizer", words, "store silu(group_norm(acc, groups=4)) as y : bf16", "mode=resident load=halo"));
  for (const char* plan : {"load=im2col tile=128x160", "load=im2col cluster=2x1", "load=im2col swap=on tile=128x128"})
    cases.push_back(product_on_gpu("sanitizer", {.batch = 2, .m = 136, .n = 168, .k = 200, .transpose_a = true},
                                   "store silu(acc + bias[n]) + r[m,n] as y : bf16", plan));
  for (const char* plan : {"load=im2col split=off", "load=halo split=off", "split=on", "tile=128x160 split=off"})
    cases.push_back(
        on_gpu("sanitizer", conv(2, 17, 19, 64, 160, 3),
               "h = acc + bias[n]\nstore h : bf16\nstore silu(layer_norm(h, scale=gamma[n], shift=beta[n])) + "
               "r[m,n] as y : bf16",
               plan));
  cases.push_back(
      on_gpu("sanitizer", conv(2, 17, 19, 64, 160, 3),
             "h = acc * s[m] + bias[n]\nstore h as y : f32\nstore max(h, over=m) as top : f32\n"
             "store variance(h, over=(m,n), per=b, groups=4) as var : f32\nstore sum(silu(h)) as total : f32",
             "mode=general load=halo"));
  cases.push_back(on_gpu("sanitizer", conv(2, 17, 19, 64, 160, 3),
                         "store acc + 0.1 * index(w) as y : bf16\nstore sum(acc, over=n) as s : f32",
                         "mode=general tile=64x64"));
  cases.push_back(on_gpu("sanitizer", conv(2, 17, 19, 64, 160, 1),
                         "operand label[m] : i32\np = softmax(acc + bias[n], over=n)\nstore p as y : bf16\n"
                         "store mean(-log(sum(p * one_hot(label), over=n) + 1e-6), over=m) as loss : f32",
                         "mode=general tile=128x160"));
  cases.push_back(on_gpu("sanitizer", conv(2, 17, 19, 64, 272, 1), "store softmax(acc + bias[n], over=n) as y : bf16",
                         "mode=general tile=64x136"));
  return cases;
}

}  // namespace unisono::gpu
