// Products by family cutlass_evt: the examples of those who write such trees by hand, and random graphs.

#include <fmt/format.h>

#include <array>

#include "gpu/evt.hpp"
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

// All that decides the text is fixed, so that kernels that were compiled for one Hopper GPU serve another
constexpr const char* usual_plan = "family=cutlass_evt order=cooperative tile=128x128 cluster=1x1";
constexpr std::array plans{"order=cooperative tile=128x128 cluster=1x1",
                           "order=pingpong tile=64x128 cluster=1x1",
                           "order=cooperative tile=128x256 cluster=1x1",
                           "order=cooperative tile=128x128 cluster=2x1",
                           "order=pingpong tile=64x64 cluster=1x1 raster=rows swizzle_size=2",
                           "order=cooperative tile=256x128 cluster=1x1 raster=channels",
                           "order=pingpong tile=128x128 cluster=1x1",
                           "order=cooperative tile=128x64 cluster=1x1 stages=3",
                           "order=cooperative tile=128x128 cluster=1x2 subtile=128x64"};

/// A graph that reads a few of its values several times.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : r_(seed) {}

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
    switch (r_.below(7)) {
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
  std::vector<std::string> values_;
  int matrices_ = 0;
};

Case evt_case(const std::string& text, const std::string& plan, const Gemm& product, std::uint64_t seed) {
  const DType type = product.dtype_a;
  Case c{.name = "evt", .conv = {}, .text = filled(text, type == DType::f32 ? DType::bf16 : type), .options = {}};
  c.product = product;
  c.conv = plan::as_convolution(product).conv;
  c.options.device = Device::cuda;
  c.options.plan = "family=cutlass_evt " + plan;
  c.seed = seed;
  return c;
}

// Whether all shapes of a graph were served; nothing is added else
bool add_graph(std::vector<Case>& cases, const std::string& text, int number, Random& random) {
  const DType type = number % 11 == 7 ? DType::f32 : number % 3 == 0 ? DType::f16 : DType::bf16;
  const std::string plan = plans[static_cast<std::size_t>(number) % plans.size()];
  const bool transpose_a = type != DType::f32 && number % 4 == 1, transpose_b = type == DType::f32 || number % 2 == 0;
  std::vector<Case> own;
  for (int shape = 0; shape < 3; ++shape) {
    const Gemm product{.batch = shape == 1 ? random.between(2, 4) : 1,
                       .m = transpose_a ? 16 * random.between(1, 30) : random.between(1, shape == 2 ? 1500 : 400),
                       .n = 16 * random.between(1, shape == 2 ? 60 : 25),
                       .k = 8 * random.between(1, 90),
                       .transpose_a = transpose_a,
                       .transpose_b = transpose_b,
                       .dtype_a = type,
                       .dtype_b = type};
    Case c = evt_case(text, plan, product, random.next());
    if (!is_served(c)) c.options.plan = usual_plan;
    if (!is_served(c)) return false;
    own.push_back(std::move(c));
  }
  cases.insert(cases.end(), own.begin(), own.end());
  return true;
}

}  // namespace

std::vector<Case> evt_cases(std::uint64_t seed) {
  Random random(seed + 97);
  std::vector<Case> cases;
  int graphs = 0;
  for (const char* text : examples)
    if (add_graph(cases, text, graphs, random)) ++graphs;
  for (int drawn = 0; graphs < evt_graphs && drawn < 20 * evt_graphs; ++drawn)
    if (add_graph(cases, RandomGraph(random.next()).text(), graphs, random)) ++graphs;
  return cases;
}

}  // namespace unisono::gpu
