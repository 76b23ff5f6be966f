// Products and convolutions by family cutlass_evt: the examples of those who write such trees by hand, and random
// graphs.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "gpu/evt.hpp"
#include "gpu/options.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

constexpr std::array examples{
    "store acc as y : {T}",
    "store acc as y : f32",
    "operand c[m,n] : {T}\nstore relu(alpha[] * acc + beta[] * c) as y : {T}",
    "h = acc + bias[n]\nstore gelu(h) as y : {T}\nstore h : {T}",
    "store clamp(acc + bias[n], lower=-0.5, upper=1.5) as y : {T}",
    "store max(min(acc, high[]), low[]) as y : {T}",
    "operand r1[m,n] : {T}\noperand r2[m,n] : {T}\noperand r3[m,n] : {T}\nstore acc + r1 + r2 + r3 as y : {T}",
    "store silu(acc) * 0.5 as y : {T}",
    // the cross-entropy of a linear layer, and its gradient
    "operand target[m,n] : {T}\nf = acc + bias[n]\np = clamp(sigmoid(f), lower=0.001, upper=0.999)\n"
    "y = (target - 1) * f + log(p)\nstore y : f32\nstore sum(y, over=n) as loss : f32",
    "operand target[m,n] : {T}\nf = acc + bias[m]\np = clamp(sigmoid(f), lower=0.001, upper=0.999)\n"
    "y = (target - 1) * f + log(p)\nstore y : f32\nstore sum(y, over=m) as loss : f32",
    "operand target[m,n] : {T}\nstore sigmoid(acc + bias[n]) - target as g : {T}",
    "store mish(acc + bias[n]) as y : {T}",
    "operand r[m,n] : {T}\nstore mish(acc + bias[n]) + r as y : {T}",
    // every visitor
    "store acc * scale[n] + shift[m] as y : {T}",
    "store acc * (a[] * b[]) as y : f32",
    "store acc * t[b] + u[b,n] as y : {T}",
    "operand r[m,n] : f32\nstore acc + r as y : {T}",
    "operand r[m,n] : {T}\nstore acc + r as y : f32",
    "operand keep[m,n] : bool\nstore select(keep, acc, 0) as y : {T}",
    "h = cast(acc, bf16)\nstore h * h as y : {T}\nstore relu(h) as z : f32",
    "h = acc + bias[n]\nstore h : {T}\nstore max(h, over=n) as peak : f32\nstore min(h, over=m, per=b) as low : f32",
    "store acc as y : {T}\nstore mean(acc, over=m, per=b) as average : f32",
    "store acc as y : {T}\nstore sum_squares(acc, over=n) as energy : f32",
    "h = acc + bias[n]\nstore h : {T}\nstore relu(h) as r : {T}\nstore tanh(h) as t : f32",
    "h = acc * scale[n]\nstore h * mish(h) as y : {T}",
    "operand c[m,n] : {T}\nh = acc + bias[n]\ni = c * scale[n]\nstore max(h * mish(h), i * softplus(i)) as y : {T}",
};

// All that decides the text is fixed, so that kernels that were compiled for one Hopper GPU serve another. The first
// one of a kind serves whatever the others do not.
using Plans = std::span<const char* const>;
constexpr std::array products_of_sm90{"order=cooperative tile=128x128 cluster=1x1",
                                      "order=pingpong tile=64x128 cluster=1x1",
                                      "order=cooperative tile=128x256 cluster=1x1",
                                      "order=cooperative tile=128x128 cluster=2x1",
                                      "order=pingpong tile=64x64 cluster=1x1 raster=rows swizzle_size=2",
                                      "order=cooperative tile=256x128 cluster=1x1 raster=channels",
                                      "order=pingpong tile=128x128 cluster=1x1",
                                      "order=cooperative tile=128x64 cluster=1x1 stages=3",
                                      "order=cooperative tile=128x128 cluster=1x2 subtile=128x64"};
constexpr std::array convolutions_of_sm90{"tile=64x128", "tile=128x128", "tile=128x64", "tile=64x64 depth=32"};
constexpr std::array of_2x{"tile=64x128 stages=3",           "tile=128x128 stages=4",
                           "tile=128x64 stages=5",           "tile=64x64 stages=4 depth=64",
                           "tile=128x256 stages=3",          "tile=256x128 stages=3",
                           "tile=128x128 stages=3 depth=64", "tile=64x64 stages=6 swizzle_size=4"};
constexpr std::array of_sm100{"tile=128x128", "tile=128x64", "tile=128x256"};

Plans plans_of(std::string_view arch, bool convolution) {
  if (arch == "sm100a") return of_sm100;
  if (arch != "sm90a") return of_2x;
  return convolution ? Plans(convolutions_of_sm90) : Plans(products_of_sm90);
}

// Reductions of 2.x are atomic
std::string plan_of(std::string_view arch, std::string_view fields) {
  const bool atomic = arch == "sm80" || arch == "sm120";
  return fmt::format("family=cutlass_evt arch={} {}{}", arch, fields, atomic ? " reductions=atomic" : "");
}

/// A graph that reads a few of its values several times.
class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, bool of_images) : r_(seed), of_images_(of_images) {}

  std::string text() {
    std::string lines;
    const int values = r_.between(1, 6);
    values_ = {"acc"};
    for (int i = 0; i < values; ++i) {
      const std::string name = fmt::format("v{}", i);
      lines += fmt::format("{} = {}\n", name, expression());
      values_.push_back(name);
    }
    lines += fmt::format("store {} : {}\n", values_.back(), type());
    if (values > 2 && r_.chance(0.4)) lines += fmt::format("store {} : {}\n", values_[2], type());
    if (values > 1 && r_.chance(0.25))
      lines += fmt::format("store {}({}, over={}) as folded : f32\n", r_.one_of({"sum", "max", "mean"}), values_[1],
                           r_.one_of({"m", "n"}));
    std::string declared;
    for (int i = 0; i < matrices_; ++i) declared += fmt::format("operand r{}[m,n] : {}\n", i, type());
    return declared + lines;
  }

 private:
  std::string type() { return r_.one_of({"{T}", "{T}", "f32"}); }

  std::string leaf() {
    const auto kind = r_.below(7);
    if (!of_images_ && (kind == 3 || kind == 4)) return fmt::format("c{}[n]", r_.below(3));
    switch (kind) {
      case 0: return fmt::format("c{}[n]", r_.below(3));
      case 1: return fmt::format("d{}[m]", r_.below(2));
      case 2: return fmt::format("s{}[]", r_.below(2));
      case 3: return "t[b]";
      case 4: return "u[b,n]";
      case 5:
        if (matrices_ < 4) return fmt::format("r{}[m,n]", matrices_++);
        [[fallthrough]];
      default: return fmt::format("{}", r_.one_of({"0.5", "-1.25", "2"}));
    }
  }

  // Reads the last value, so that no line is for nothing
  std::string expression() {
    const std::string& x = values_.back();
    const std::string& y = r_.one_of(values_);
    switch (r_.below(10)) {
      case 0: return fmt::format("{} + {}", x, leaf());
      case 1: return fmt::format("{} * {}", x, leaf());
      case 2: return fmt::format("{} - {} * {}", x, y, leaf());
      case 3: return fmt::format("{}({})", function(), x);
      case 4: return fmt::format("{}({}) + {}", function(), x, y);
      case 5: return fmt::format("max({}, {} * {})", x, y, leaf());
      case 6: return fmt::format("select({} > {}, {}, {} * 0.5)", y, leaf(), x, x);
      case 7: return fmt::format("cast({} + {}, {})", x, leaf(), r_.one_of({"bf16", "f16"}));
      case 8: return fmt::format("clamp({}, lower=-2, upper=2) * {}({})", x, function(), y);
      default: return fmt::format("fma({}, {}, {})", x, leaf(), y);
    }
  }
  const char* function() {
    return r_.one_of({"relu", "tanh", "sigmoid", "silu", "gelu", "mish", "softplus", "hardswish", "leaky_relu", "erf"});
  }

  Random r_;
  bool of_images_;  // operands may have a value for each matrix
  std::vector<std::string> values_;
  int matrices_ = 0;
};

// For every scalar that a launch carries
std::map<std::string, double> numbers_of(const Graph& graph, Random random) {
  std::map<std::string, double> numbers;
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand && x.axes == axes::scalar) numbers.emplace(x.attr.name, random.uniform(-1, 1));
  return numbers;
}

Case evt_case(const std::string& text, const std::string& plan, DType type, std::uint64_t seed) {
  Case c{.name = "evt", .conv = {}, .text = filled(text, type == DType::f32 ? DType::bf16 : type), .options = {}};
  c.options.device = Device::cuda;
  c.options.plan = plan;
  c.seed = seed;
  c.scalars = numbers_of(graph_of(c), Random(seed));
  return c;
}

// One graph's place among all, which decides its type and layout
struct Place {
  std::string_view arch;
  std::size_t number;
  bool product = false;  // whatever its number

  bool is_convolution() const { return !product && number % 4 == 3; }
  bool is_transposed() const { return is_convolution() && arch == "sm90a" && number % 12 == 11; }
  DType type() const {
    if (!is_convolution() && number % 11 == 6) return DType::f32;
    return number % 3 == 0 ? DType::f16 : DType::bf16;
  }
};

Gemm product(const Place& at, int shape, Random& random) {
  const DType type = at.type();
  const bool transpose_a = type != DType::f32 && at.number % 8 == 1;
  return {.batch = shape == 1 ? random.between(2, 4) : 1,
          .m = transpose_a ? 16 * random.between(1, 30) : random.between(1, shape == 2 ? 1500 : 400),
          .n = 16 * random.between(1, shape == 2 ? 60 : 25),
          .k = 8 * random.between(1, 90),
          .transpose_a = transpose_a,
          .transpose_b = type == DType::f32 || at.number % 2 == 0,
          .dtype_a = type,
          .dtype_b = type};
}

// Any filter, stride, border and dilation
Conv2d convolution(const Place& at, int shape, Random& random) {
  Conv2d c{.n = random.between(1, shape == 2 ? 5 : 3),
           .h = random.between(1, 24),
           .w = random.between(1, 30),
           .c = 8 * random.between(1, 20),
           .k = 16 * random.between(1, shape == 2 ? 20 : 8),
           .r = random.between(1, 5),
           .s = random.between(1, 5),
           .dtype_x = at.type(),
           .dtype_w = at.type()};
  c.stride = {random.between(1, 3), random.between(1, 3)};
  c.dilation = {random.between(1, 3), random.between(1, 2)};
  for (std::size_t side = 0; side < 4; ++side) c.pad[side] = random.between(0, 4);
  c.h = std::max(c.h, (c.r - 1) * c.dilation.h + 1), c.w = std::max(c.w, (c.s - 1) * c.dilation.w + 1);
  if (c.r == 1 && c.s == 1 && c.stride == Pair(1)) c.pad = 1;  // else a product
  return c;
}

// A convolution's transpose, of stride 1
ConvTranspose2d transposed(const Conv2d& c) {
  return {.n = c.n,
          .h = c.h,
          .w = c.w,
          .c = c.c,
          .k = c.k,
          .r = c.r,
          .s = c.s,
          .pad = {std::min(c.pad.top, (c.r - 1) * c.dilation.h / 2), std::min(c.pad.left, (c.s - 1) * c.dilation.w / 2),
                  std::min(c.pad.bottom, (c.r - 1) * c.dilation.h / 2),
                  std::min(c.pad.right, (c.s - 1) * c.dilation.w / 2)},
          .dilation = c.dilation,
          .dtype_x = c.dtype_x,
          .dtype_w = c.dtype_w};
}

// Whether all shapes of a graph were served, and none of the architecture's, from `first` on, has it already; nothing
// is added else
bool add_graph(std::vector<Case>& cases, std::size_t first, const std::string& text, const Place& at, Random& random) {
  const Plans plans = plans_of(at.arch, at.is_convolution());
  const char* fields = plans[at.number % plans.size()];
  std::vector<Case> own;
  const auto is_same = [&](const Case& c) { return c.text == own.front().text; };
  for (int shape = 0; shape < 3; ++shape) {
    Case c = evt_case(text, plan_of(at.arch, fields), at.type(), random.next());
    if (at.is_convolution()) c.conv = convolution(at, shape, random);
    if (at.is_transposed()) c.transposed = transposed(c.conv), c.conv = plan::as_convolution(*c.transposed).conv;
    if (!at.is_convolution()) c.product = product(at, shape, random), c.conv = plan::as_convolution(*c.product).conv;
    if (!is_served(c)) c.options.plan = plan_of(at.arch, plans[0]);
    if (!is_served(c)) return false;
    own.push_back(std::move(c));
  }
  if (std::any_of(cases.begin() + static_cast<std::ptrdiff_t>(first), cases.end(), is_same)) return false;
  cases.insert(cases.end(), own.begin(), own.end());
  return true;
}

void add_graphs(std::vector<Case>& cases, std::string_view arch, std::size_t wanted, Random& random) {
  const std::size_t first = cases.size();
  std::size_t graphs = 0;
  if (wanted == evt_graphs)
    for (const char* text : examples)
      if (add_graph(cases, first, text, {arch, graphs}, random) ||
          add_graph(cases, first, text, {arch, graphs, true}, random))
        ++graphs;
  for (std::size_t drawn = 0; graphs < wanted && drawn < 20 * wanted; ++drawn) {
    const Place at{arch, graphs};
    if (add_graph(cases, first, RandomGraph(random.next(), !at.is_convolution()).text(), at, random)) ++graphs;
  }
}

// Gradients of filters, of any window, of images whose channels a tile's columns divide
FilterGradient2d gradient(std::size_t number, int shape, std::int64_t columns, Random& random) {
  const DType type = number % 3 == 0 ? DType::f16 : DType::bf16;
  FilterGradient2d g{.n = random.between(1, shape == 2 ? 6 : 3),
                     .h = random.between(1, 24),
                     .w = random.between(1, 30),
                     .c = columns * random.between(1, 3),
                     .k = 8 * random.between(1, shape == 2 ? 40 : 12),
                     .r = random.between(1, 4),
                     .s = random.between(1, 4),
                     .dtype_y = type,
                     .dtype_x = type};
  g.stride = {random.between(1, 3), random.between(1, 3)};
  g.dilation = {random.between(1, 2), random.between(1, 2)};
  for (std::size_t side = 0; side < 4; ++side) g.pad[side] = random.between(0, 3);
  g.h = std::max(g.h, (g.r - 1) * g.dilation.h + 1), g.w = std::max(g.w, (g.s - 1) * g.dilation.w + 1);
  return g;
}

struct GradientPlan {
  const char* fields;
  std::int64_t columns;
};
constexpr std::array plans_of_gradients{GradientPlan{"tile=128x64", 64}, GradientPlan{"tile=64x64 depth=32", 64},
                                        GradientPlan{"tile=128x128", 128}, GradientPlan{"tile=128x32", 32},
                                        GradientPlan{"tile=128x16", 16}};

// What gradients are added to and scaled by, every visitor, and random graphs
void add_gradients(std::vector<Case>& cases, Random& random) {
  constexpr std::array texts{
      "operand c[m,n] : f32\nstore alpha[] * acc + beta[] * c as dw : f32",
      "store acc * scale[] as dw : {T}",
      "store acc as dw : f32\nstore sum_squares(acc, over=n) as energy : f32",
      "operand w[m,n] : {T}\nstore clamp(acc + decay[] * w, lower=-4, upper=4) as dw : {T}",
      "store acc * gain[n] + shift[m] as dw : {T}\nstore acc as plain : f32",
      "store acc as dw : {T}\nstore max(acc, over=m) as peak : f32",
  };
  for (std::size_t number = 0; number < gradient_graphs; ++number) {
    const GradientPlan& plan = plans_of_gradients[number % plans_of_gradients.size()];
    const std::string text =
        number < texts.size() ? std::string(texts[number]) : RandomGraph(random.next(), false).text();
    for (int shape = 0; shape < 3; ++shape) {
      const FilterGradient2d g = gradient(number, shape, plan.columns, random);
      Case c = evt_case(text, plan_of("sm90a", plan.fields), g.dtype_x, random.next());
      c.gradient = g, c.conv = g.convolution();
      if (is_served(c)) cases.push_back(std::move(c));
    }
  }
}

// Groups of rows with a B each, by every visitor that they have
void add_grouped(std::vector<Case>& cases, Random& random) {
  constexpr std::array texts{
      "store acc as y : {T}",
      "store relu(acc + bias[n]) as y : {T}",
      "store silu(acc) * weight[m] as y : f32",
      "operand r[m,n] : {T}\nstore acc * alpha[] + r as y : {T}",
      "operand c[m,n] : f32\nh = acc + bias[n]\nstore h * sigmoid(h) + c * w[m] as y : {T}",
  };
  constexpr std::array plans{"order=cooperative tile=128x128", "order=pingpong tile=64x128",
                             "order=cooperative tile=128x64 stages=3", "order=cooperative tile=256x128 cluster=2x1",
                             "order=pingpong tile=64x64 raster=channels swizzle_size=2"};
  for (std::size_t number = 0; number < grouped_graphs; ++number)
    for (int shape = 0; shape < 3; ++shape) {
      const DType type = number % 3 == 0 ? DType::f16 : DType::bf16;
      Gemm g{.n = 16 * random.between(1, 30),
             .k = 8 * random.between(1, 60),
             .transpose_b = number % 2 == 0,
             .dtype_a = type,
             .dtype_b = type};
      const auto groups = random.between(1, shape == 2 ? 40 : 6);
      for (std::int64_t i = 0; i < groups; ++i) g.m += g.group_rows.emplace_back(random.between(1, 300));
      Case c = evt_case(texts[number % texts.size()], plan_of("sm90a", plans[(number / 2) % plans.size()]), type,
                        random.next());
      c.product = g, c.conv = plan::as_convolution(g).conv;
      if (is_served(c)) cases.push_back(std::move(c));
    }
}

}  // namespace

std::vector<Case> evt_cases(std::uint64_t seed) {
  std::vector<Case> cases;
  const std::string& only = options().arch;
  for (const char* arch : {"sm90a", "sm80", "sm100a", "sm120"}) {
    const std::string_view name = arch;
    const bool runs = name == "sm90a" || name == "sm80";
    if (only.empty() ? !runs : only != name) continue;
    Random random(seed + 97);
    add_graphs(cases, name, runs ? evt_graphs : evt_compiled_graphs, random);
    if (name == "sm90a") add_gradients(cases, random), add_grouped(cases, random);
  }
  return cases;
}

}  // namespace unisono::gpu
