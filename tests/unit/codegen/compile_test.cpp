#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "families/sm90/parameters.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "fixture.hpp"
#include "ir/op_table.hpp"
#include "jit/jit.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {
namespace {

// Every elementwise operation of src/ir, over floats, and over integers where they differ
constexpr std::string_view written_operations = R"(
operand k : i32 = 3
operand s : f16
operand flag : bool
operand nk[n] : i32
operand nflag[n] : bool
operand r[m,n] : bf16
operand r2[m,n] : f16
x = acc
a = (x + bias[n]) * s - r[m,n]
b = a / (2.5 + x) + a / 3 + min(a, x) + max(a, r2[m,n]) + pow(abs(x), 1.5)
c0 = (x < a) & (x <= b) | !(x > b)
c1 = (x >= 0) & (x == a) | (b != a) & nflag[n] & flag
c = select(c0, a, b) + select(c1, 1, x)
d = fma(a, b, c) + -x + abs(x) + sqrt(abs(x)) + rsqrt(abs(x) + 1) + reciprocal(x) + square(x)
e = exp(x) + log(x) + log1p(x) + tanh(x) + erf(x) + sin(x) + cos(x) + sigmoid(x) + relu(x) + relu6(x)
f = leaky_relu(x) + leaky_relu(x, 2) + elu(x) + elu(x, 0.5) + silu(x) + mish(x) + gelu(x) + gelu_tanh(x)
g = hardsigmoid(x) + hardswish(x) + softplus(x) + logsigmoid(x) + clamp(x, -1, 1) + clamp(x, -1) + clamp(x, upper=2)
h = cast(cast(x, bf16), f32) + cast(cast(x, f16) * 2, f32) + cast(cast(x, tf32), f32)
i = cast(x, i32)
j = i + nk[n] * k - i
l = fma(i, i, k) + -j + abs(j) + square(i) + relu(i) + min(i, j) + max(i, 3)
o = cast(i < j, f32) + cast(l, f32) + cast(cast(x, bool), f32) + l / 2 + select(i == 3, i, l) * x
q = gain(x) + blend(x, bias[n]) + inf * x + nan
y = c + d + e + f + g + h + o + q + extent(h) * x + column[b] + int[b,n]
store y : bf16
)";

// The same, and those functions of the table that it does not name
std::string with_all_functions() {
  std::string text(written_operations);
  text.resize(text.rfind("store y"));
  std::string sum = "y";
  for (int i = 0; i < op_count; ++i) {
    const ir::OpInfo& row = ir::info(static_cast<Op>(i));
    const bool named = text.find(std::string(row.name) + "(") != text.npos;
    const bool written = row.op_class == ir::OpClass::unary && row.symbol.empty() && static_cast<Op>(i) != Op::one_hot;
    if (!written || named) continue;
    const std::string next = sum + "_";
    text += fmt::format("{} = {} + {}(x)\n", next, sum, row.name);
    sum = next;
  }
  return text + "store " + sum + " : bf16\n";
}
const std::string all_operations = with_all_functions();

jit::Request request_of(const Kernel& kernel, std::span<const jit::Header> headers, const std::string& title) {
  return {.source = kernel.source,
          .headers = headers,
          .entry = kernel.entry,
          .title = title,
          .arch = plan::Device{}.arch()};
}

// Few elements a thread: the functions are compiled for each
families::sm90_conv::ConvConfig small_tile() {
  families::sm90_conv::ConvConfig config;
  config.tile.m = 64, config.tile.n = 16;
  return config;
}

class Compiles : public testing::Test {
 protected:
  template <class Config>
  void compile(std::string_view text, const Config& config, const Options& options = {}) {
    compile(generate(epilogue_of(text), config, options), std::string(text));
  }
  void compile(const Kernel& kernel, const std::string& title) {
    requests_.push_back(request_of(kernel, headers(), title));
  }
  void compile(std::string_view text, const Options& options = {}) {
    compile(text, config_of(epilogue_of(text)), options);
  }

  void TearDown() override {
    if (requests_.empty()) return;
    jit::Settings settings;
    settings.use_cache = false;
    std::optional<jit::Jit> jit;
    try {
      jit.emplace(settings);
      jit->compile(request_of({"extern \"C\" __global__ void none() {}", "none", {}}, {}, "nothing"));
    } catch (const CompileError& e) {
      GTEST_SKIP() << e.what();
    }
    for (const jit::Binary& binary : jit->compile(requests_)) {
      EXPECT_FALSE(binary.cubin.empty());
      EXPECT_GT(binary.resources.registers, 30);
      EXPECT_EQ(binary.resources.injected_waits, 0u);  // in a sum they can lose parts of it
    }
  }

 private:
  static std::span<const jit::Header> headers() {
    static const std::vector<jit::Header> all = [] {
      std::vector<jit::Header> h;
      for (const Header& header : device_headers()) h.push_back({header.name, header.text});
      return h;
    }();
    return all;
  }
  std::vector<jit::Request> requests_;
};

TEST_F(Compiles, EveryElementwiseOperation) {
  std::set<Op> missing;
  for (int i = 0; i < op_count; ++i)
    if (const Op op = static_cast<Op>(i); ir::is_elementwise(op) && op != Op::one_hot) missing.insert(op);
  const plan::Epilogue epilogue = epilogue_of(all_operations);
  for (const Node& x : epilogue.graph.nodes) missing.erase(x.op);
  // Passes write these in other words
  for (const Op op : {Op::square, Op::neg, Op::greater, Op::sub}) missing.erase(op);
  EXPECT_TRUE(missing.empty()) << to_string(*missing.begin());
  compile(all_operations, small_tile());
}

TEST_F(Compiles, FurtherElementwiseOperationsAccurately) {
  Options options;
  options.accurate = true;
  compile(all_operations, small_tile(), options);
}

TEST_F(Compiles, WithoutNormalisation) {
  compile("store acc as y : bf16");
  families::sm90_conv::ConvConfig config;
  config.element = DType::f16;
  config.tile = {.m = 256, .n = 160};
  config.schedule = {.order = families::sm90::Order::cooperative, .cluster = {1, 2}, .stages = 3};
  compile("h = acc + bias[n] + temb[b,n]\nstore silu(h) + r[m,n] as y : f16\nstore h : bf16", config);
}

TEST_F(Compiles, Depthwise) {
  families::sm90_depthwise::DepthwiseConfig config;
  config.tile_n = 64;
  config.strip = {.taps_h = 3, .taps_w = 3, .ctas = 3};
  compile("operand r[m,n] : bf16\nh = acc + bias[n]\nstore h : f16\nstore hardswish(h) + r as y : bf16", config);
  config.strip.taps_h = config.strip.taps_w = 0, config.strip.multiplier = 4;
  config.mode = families::sm90::NormMode::general;
  compile("operand keep[m,n] : bool\nstore select(keep, acc * s[m], index(h)) as y : f32\nstore acc > 0 as z : bool",
          config);
}

TEST_F(Compiles, Resident) {
  compile(
      "h = acc + bias[n]\ny = silu(group_norm(h, groups=32, scale=gamma[n], shift=beta[n]))\nstore y + h * r[m,n] as z "
      ": bf16");
  compile(
      "h = acc + bias[n]\nstore mish(group_norm(h, groups=4)) as y : bf16\nstore h : f16\n"
      "store mean(h, over=(m,n), per=b, groups=4) as mu : f32\nstore rsqrt(variance(h, over=(m,n), per=b, groups=4)) "
      "as r : bf16");
}

TEST_F(Compiles, Rows) {
  compile(
      "operand r[m,n] : bf16\nh = acc + bias[n]\nstore h : f16\nstore silu(layer_norm(h, scale=gamma[n], "
      "shift=beta[n])) "
      "+ r as y : bf16");
  const char* text = "y = layer_norm(acc + t[b,n])\nstore gelu(y) as z : f16\nstore y as w : bf16";
  families::sm90_conv::ConvConfig config = config_of(epilogue_of(text));
  config.element = DType::f16, config.tile = {.m = 64, .n = 256}, config.schedule = {.stages = 3, .split = true};
  Options options;
  options.watchdog = options.delays = true;
  compile(text, config, options);
}

// A function that takes a float's bits, ahead of a normalisation of each kind: accumulators stay floats
TEST_F(Compiles, FurtherBitsOfAccumulators) {
  constexpr const char* text = "h = odd(acc + bias[n])\nstore h : bf16\nstore {} as y : bf16";
  const std::string pixel = fmt::format(fmt::runtime(text), "layer_norm(h)"),
                    image = fmt::format(fmt::runtime(text), "group_norm(h, groups=32)");
  for (const auto mode :
       {families::sm90::NormMode::rows, families::sm90::NormMode::resident, families::sm90::NormMode::streamed}) {
    const std::string& chosen = mode == families::sm90::NormMode::rows ? pixel : image;
    families::sm90_conv::ConvConfig config = config_of(epilogue_of(chosen));
    if (mode == families::sm90::NormMode::streamed)
      config.statistics = families::sm90_conv::StreamedStatistics{.unit = config.unit()};
    config.tile = {.m = 256, .n = 64};
    config.schedule = {.order = families::sm90::Order::cooperative, .stages = 3};
    compile(chosen, config);
  }
  compile("store odd(acc) as y : bf16", small_tile());
}

TEST_F(Compiles, ExplicitIm2col) {
  Conv2d conv{.n = 1, .h = 64, .w = 64, .c = 3, .k = 64, .r = 3, .s = 3};
  families::sm90_conv::ConvConfig config{.tile = {.n = 64},
                                         .schedule = {.order = families::sm90::Order::pingpong2},
                                         .loader = families::sm90_conv::ExplicitIm2col{
                                             .window = families::sm90_conv::im2col_window_of(conv), .stages = 3}};
  compile("store relu(acc + bias[n]) as y : bf16", config);
  conv.c = 16;
  config.tile.k = 32, config.schedule.order = families::sm90::Order::cooperative;
  config.loader =
      families::sm90_conv::ExplicitIm2col{.window = families::sm90_conv::im2col_window_of(conv), .stages = 3};
  Options options;
  options.watchdog = options.delays = true;
  compile("store relu(acc + bias[n]) as y : bf16", config, options);
}

TEST_F(Compiles, FurtherStreamedAndSwapped) {
  const char* text =
      "operand r[m,n] : bf16\ny = instance_norm(acc * s[] + r[m,n], scale=gamma[n])\nstore gelu(y) * r[m,n] as z : "
      "bf16\nstore y + t[b,n] as w : f16";
  families::sm90_conv::ConvConfig config = config_of(epilogue_of(text));
  config.statistics = families::sm90_conv::StreamedStatistics{.unit = config.unit()};
  config.features.store_buffers = families::sm90_conv::stores_per_tile(config);
  Options options;
  options.watchdog = options.delays = true;
  compile(text, config, options);
  config.tile.n = 64, config.schedule.swap = true,
  config.features.store_buffers = families::sm90_conv::stores_per_tile(config);
  compile(text, config);
  config.statistics = families::sm90_conv::ResidentStatistics{.unit = config.unit()};
  compile(text, config);
  config.features.fetch = 1;
  compile(text, config);
}

}  // namespace
}  // namespace unisono::codegen
