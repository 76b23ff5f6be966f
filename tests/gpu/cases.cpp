#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "families/registry.hpp"
#include "gpu/case.hpp"
#include "gpu/moments.hpp"
#include "gpu/options.hpp"
#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/as_convolution.hpp"
#include "plan/epilogue.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {

using test::Random;

std::string Case::describe() const {
  std::string more = options.accurate ? ", accurate" : "";
  if (delays) more += ", delays";
  if (filters_ahead) more += ", filters ahead";
  if (moments != 0) more += fmt::format(", moments of {} channels", moments);
  if (resampled.any())
    more += fmt::format(", resampled '{}' '{}'{}", resampled.pooled, resampled.upsampled,
                        resampled.only_upsampled ? " only" : "");
  if (gaps.matrices != 0) more += fmt::format(", matrices {} elements apart", gaps.matrices);
  if (gaps.image != 0) more += fmt::format(", pixels {} elements apart", gaps.image);
  if (gaps.output != 0) more += fmt::format(", rows of the result {} elements apart", gaps.output);
  if (!witnessed.empty()) more += fmt::format(", a function sees {}", witnessed);
  return fmt::format("{}: {} {}, seed {}, plan '{}'{}\n{}", name, to_string(contraction()), to_string(conv.dtype_x),
                     seed, options.plan, more, text);
}

std::vector<UserFunction> test_functions() {
  UserFunction warp;
  warp.name = "warp";
  warp.arity = 2;
  // Without a step at x = y: what an error makes of a value beside a step is no bound that two ends of an interval tell
  warp.cuda_source = "__device__ float warp(float x, float y) { return x > y ? 0.75f * y + 0.5f * x : y + 0.25f * x; }";
  warp.cpu = [](std::span<const double> x) { return x[0] > x[1] ? 0.75 * x[1] + 0.5 * x[0] : x[1] + 0.25 * x[0]; };
  UserFunction fold;
  fold.name = "fold";
  fold.arity = 1;
  fold.cuda_source = "__device__ float fold(float x) { return __float_as_int(x) < 0 ? 0.25f * x : x; }";
  fold.cpu = [](std::span<const double> x) { return x[0] < 0 ? 0.25 * x[0] : x[0]; };
  UserFunction bend;  // with vector forms
  bend.name = "bend";
  bend.arity = 3;
  bend.parameters = {ParameterType::float32, ParameterType::float32, ParameterType::int32};
  bend.cuda_source =
      "__device__ float bend(float x, float y, int n) { return x + 0.5f * y + float(n % 16); }\n"
      "__device__ float2 bend(float2 x, float2 y, int n) { return {bend(x.x, y.x, n), bend(x.y, y.y, n + 1)}; }\n"
      "__device__ float4 bend(float4 x, float4 y, int n) {\n"
      "    return {bend(x.x, y.x, n), bend(x.y, y.y, n + 1), bend(x.z, y.z, n + 2), bend(x.w, y.w, n + 3)};\n}\n"
      "__device__ unisono::float8 bend(unisono::float8 x, unisono::float8 y, int n) {\n"
      "    return {bend(x.low, y.low, n), bend(x.high, y.high, n + 4)};\n}";
  bend.cpu = [](std::span<const double> x) { return x[0] + 0.5 * x[1] + std::fmod(x[2], 16); };
  return {warp, fold, bend};
}

namespace {

// Counts and keeps what it sees at a cell of two words; the address comes in three numbers of 24 bits
UserFunction witness() {
  UserFunction f;
  f.name = "witness";
  f.arity = 5;
  f.returns_value = false;
  f.cuda_source =
      "__device__ void witness(float low, float middle, float high, float cell, float x) {\n"
      "    const unsigned long long address = (unsigned long long)(low) | (unsigned long long)(middle) << 24 | "
      "(unsigned long long)(high) << 48;\n"
      "    float* at = reinterpret_cast<float*>(address) + 2 * (long long)(cell);\n"
      "    reinterpret_cast<unsigned*>(at)[0] += 1, at[1] = x;\n}";
  f.cpu = [](std::span<const double>) { return 0.0; };
  return f;
}

}  // namespace

namespace {

// With what else is stored of the store that TMA writes
Graph with_forms(Graph g, const Case& c) {
  if (!c.resampled.any()) return g;
  const plan::Epilogue e =
      plan::analyse(passes::run_pipeline(g), extents(c.contraction()), families::tile_limits()).value();
  const auto main = std::ranges::find(g.stores, e.graph.stores[plan::main_store(e).value()].name, &Store::name);
  const Store of = *main;
  if (c.resampled.only_upsampled) g.stores.erase(main);
  const auto add = [&](const std::string& name, StoreForm form) {
    if (!name.empty()) g.stores.push_back({of.value, of.dtype, name, form});
  };
  add(c.resampled.pooled, StoreForm::max_pool_2x2);
  add(c.resampled.upsampled, StoreForm::upsample_2x2);
  verify(g);
  return g;
}

}  // namespace

Graph graph_of(const Case& c) {
  auto functions = test_functions();
  if (c.witnessed.empty()) return with_forms(parse(c.text, functions), c);
  functions.push_back(witness());
  const char* cell = c.witness_axes == "m" ? "index(m)" : "index(m) * extent(n) + index(n)";
  return parse(fmt::format("{}\nwitness(witness0[], witness1[], witness2[], {}, {})", c.text, cell, c.witnessed),
               functions);
}

Graph judged_graph_of(const Case& c) {
  if (c.witnessed.empty()) return graph_of(c);
  return parse(fmt::format("{}\nstore {} as {} : f32", c.text, c.witnessed, witness_name), test_functions());
}

const plan::Device& planning_device() {
  static const plan::Device device = [] {
    if (options().arch == "sm100a") return plan::Device{.name = "a GPU of sm_100", .major = 10};
    if (options().arch == "sm120") {
      plan::Device other{.name = "a GPU of sm_120", .major = 12};
      other.shared_bytes = 101376;
      return other;
    }
    try {
      return cuda::open_device(0);
    } catch (const DeviceError&) {
      return plan::Device{};
    } catch (const Unsupported&) {
      return plan::Device{};
    }
  }();
  return device;
}

bool is_served(const Case& c, std::string* reason) {
  try {
    kernel_of(c, planning_device());
    return true;
  } catch (const Unsupported& error) {
    if (reason != nullptr) *reason = error.what();
    return false;
  }
}

std::string filled(std::string text, DType type, std::int64_t groups) {
  const auto replace = [&](std::string_view from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  replace("{T}", std::string(to_string(type)));
  replace("{G}", std::to_string(groups));
  return text;
}

namespace {

// ---- Random families: graphs and configurations, each with several shapes that share kernels

struct Epilogue {
  const char* text;  // {T}: dtype of the stores, {G}: groups
  bool normalises;
};

constexpr Epilogue epilogues[] = {
    {"store acc as y : {T}", false},
    {"store silu(acc + bias[n]) as y : {T}", false},
    {"operand r[m,n] : {T}\nstore relu(acc + bias[n]) + r as y : {T}", false},
    {"store gelu(acc * alpha[] + temb[b,n]) as y : {T}", false},
    {"h = acc + bias[n]\nstore h : {T}\nstore tanh(h) as y : {T}", false},
    {"store silu(group_norm(acc + bias[n], groups={G}, scale=gamma[n], shift=beta[n])) as y : {T}", true},
    {"operand r[m,n] : {T}\nstore mish(group_norm(acc + bias[n], groups={G}, scale=gamma[n], shift=beta[n])) + r as y "
     ": {T}",
     true},
    {"h = acc + bias[n] + temb[b,n]\nstore h : {T}\nstore silu(group_norm(h, groups={G}, scale=gamma[n], "
     "shift=beta[n])) as y : {T}",
     true},
    {"operand r[m,n] : {T}\ny = silu(group_norm(acc, groups={G}, scale=gamma[n], shift=beta[n]))\nstore y : {T}\nstore "
     "y * 0.5 + r as z : {T}",
     true},
    {"h = acc + bias[n]\nstore silu(group_norm(h, groups={G}, eps=1e-6)) as y : {T}\n"
     "store mean(h, over=(m,n), per=b, groups={G}) as mu : f32\n"
     "store rsqrt(variance(h, over=(m,n), per=b, groups={G}) + 1e-6) as rstd : f32",
     true},
    {"store leaky_relu(instance_norm(acc, scale=gamma[n], shift=beta[n]), slope=0.1) as y : {T}", true},
    {"store group_norm(acc, groups={G}, scale=1 + s[b,n], shift=t[b,n]) as y : {T}", true},
    {"h = acc + bias[n]\nstore silu(group_norm(h, groups={G}, scale=gamma[n], shift=beta[n])) + h as y : {T}", true},
    {"operand r[m,n] : {T}\nstore gelu_tanh(group_norm(acc + r, groups={G}, scale=gamma[n])) as y : {T}", true},
    {"operand r[m,n]\nstore hardswish(group_norm(acc * 0.5 + r, groups={G}, shift=beta[n])) as y : {T}", true},
};

constexpr const char* overrides_plain[] = {"tile=128x128 order=pingpong",
                                           "tile=128x160 order=cooperative",
                                           "tile=256x64 order=pingpong2",
                                           "load=im2col",
                                           "load=halo",
                                           "cluster=2x1",
                                           "cluster=1x2",
                                           "split=on",
                                           "depth=32 load=im2col",
                                           "tile=256x64 cluster=1x5",
                                           "tile=64x64",
                                           "swap=on load=halo",
                                           "swap=on load=im2col"};
constexpr const char* overrides_norm[] = {
    "mode=resident order=pingpong",     "mode=resident order=cooperative", "mode=resident swap=on",
    "mode=streamed swap=on load=halo",  "mode=streamed load=im2col",       "mode=streamed load=halo",
    "mode=streamed order=cooperative",  "mode=resident split=on",          "mode=resident cluster=1x2",
    "mode=streamed cluster=2x1",        "mode=resident load=im2col",       "mode=streamed order=pingpong2",
    "mode=streamed swap=on load=im2col"};

// Channels and group width: any width of 1 to 64, the odd ones more often
std::pair<std::int64_t, std::int64_t> draw_channels(Random& random) {
  const int width = random.chance(0.6) ? random.one_of({1, 3, 4, 5, 8, 10, 16, 20, 32, 40, 64}) : random.between(1, 64);
  const int step = std::lcm(width, 8);
  return {std::int64_t{step} * random.between(1, std::max(1, 384 / step)), width};
}

struct Family {
  Case common;
  Random random;

  // Data of some ten thousand elements, one in ten of a million
  std::optional<Case> draw() {
    Case c = common;
    const bool large = random.chance(0.1);
    c.conv.n = random.between(1, large ? 8 : 4);
    c.conv.h = random.between(1, large ? 120 : 40);
    c.conv.w = random.between(1, large ? 120 : 40);
    c.conv.c = 8 * random.between(1, random.chance(0.3) ? 40 : 12);
    if (random.chance(0.5)) {
      const std::int64_t top = (c.conv.r - 1) * c.conv.dilation[0] / 2, left = (c.conv.s - 1) * c.conv.dilation[1] / 2;
      c.conv.pad = {top, left, top, left};
    } else {
      for (std::size_t side = 0; side < 4; ++side) c.conv.pad[side] = random.between(0, 3);
    }
    c.seed = random.next();
    const auto& v = c.conv;
    const std::int64_t p = (v.h + v.pad[0] + v.pad[2] - (v.r - 1) * v.dilation[0] - 1) / v.stride[0] + 1;
    const std::int64_t q = (v.w + v.pad[1] + v.pad[3] - (v.s - 1) * v.dilation[1] - 1) / v.stride[1] + 1;
    if (v.h + v.pad[0] + v.pad[2] <= (v.r - 1) * v.dilation[0] ||
        v.w + v.pad[1] + v.pad[3] <= (v.s - 1) * v.dilation[1])
      return {};
    if (v.n * p * q * v.k > (large ? 2000000 : 150000) || !is_served(c)) return {};
    return c;
  }
};

Family make_family(int index, Random& random) {
  const Epilogue& e = epilogues[static_cast<std::size_t>(index) % std::size(epilogues)];
  Case c;
  const auto [channels, width] = draw_channels(random);
  const DType type = random.chance(0.7) ? DType::bf16 : DType::f16;
  c.conv.k = channels;
  c.conv.dtype_x = c.conv.dtype_w = type;
  const int taps = random.between(0, 5);
  c.conv.r = c.conv.s = taps == 0 ? 1 : 3;
  if (taps == 1) c.conv.r = random.between(1, 7), c.conv.s = random.between(1, 7);
  if (random.chance(0.25)) c.conv.stride = {random.between(1, 2), random.between(1, 2)};
  if (random.chance(0.2)) c.conv.dilation = {random.between(1, 2), random.between(1, 2)};
  c.text = filled(e.text, type, channels / width);
  c.options.device = Device::cuda;
  if (std::string_view(e.text).find("alpha[]") != std::string_view::npos) c.scalars["alpha"] = random.uniform(-2, 2);
  c.options.accurate = random.chance(0.15);
  if (random.chance(0.7))
    c.options.plan = e.normalises ? overrides_norm[random.below(std::size(overrides_norm))]
                                  : overrides_plain[random.below(std::size(overrides_plain))];
  c.name = fmt::format("random family {}", index);
  return {std::move(c), Random(random.next())};
}

}  // namespace

std::vector<Case> random_cases(std::uint64_t seed, int families, int shapes) {
  Random random(seed);
  std::vector<Case> cases;
  for (int i = 0; i < families; ++i) {
    Family family = make_family(i, random);
    int found = 0;
    for (int tries = 0; found < shapes && tries < 60 * shapes; ++tries) {
      if (tries == 30 * shapes && found == 0) family.common.options.plan.clear();  // no shape takes this plan
      if (auto c = family.draw()) cases.push_back(std::move(*c)), ++found;
    }
  }
  return cases;
}

std::vector<Case> product_cases(std::uint64_t seed) {
  static constexpr const char* texts[] = {
      "store acc as y : {T}",
      "store gelu(acc + bias[n]) as y : {T}",
      "store silu(acc) * 0.5 as y : {T}",
      "operand r[m,n] : {T}\noperand s[m,n] : {T}\nstore acc + r + s as y : {T}",
      "h = acc + bias[n]\nstore h : {T}\nstore relu(h) as y : {T}",
      "store silu(group_norm(acc + bias[n], groups=2, scale=gamma[n], shift=beta[n])) as y : {T}"};
  static constexpr const char* plans[] = {"",
                                          "load=im2col order=cooperative",
                                          "load=im2col swap=on",
                                          "load=im2col cluster=2x1",
                                          "load=im2col cluster=1x2",
                                          "load=im2col depth=32",
                                          "load=im2col split=on",
                                          "load=im2col tile=128x160",
                                          "load=im2col tile=64x72",
                                          "order=pingpong2",
                                          "mode=streamed load=im2col"};
  Random random(seed + 3);
  std::vector<Case> cases;
  for (int i = 0; i < 53; ++i) {
    const DType type = i % 3 == 0 ? DType::f16 : DType::bf16;
    Case c{.name = fmt::format("product {}", i),
           .conv = {},
           .text = filled(texts[i % std::size(texts)], type, 2),
           .options = {}};
    const bool columns_a = i % 4 == 1 || i % 4 == 2, columns_b = i % 4 >= 2, large = random.chance(0.2);
    const std::int64_t m = random.between(1, large ? 1500 : 300), k = random.between(1, large ? 1200 : 320);
    c.product = {.batch = i % 3 == 1 ? random.between(2, 5) : 1,
                 .m = columns_a ? (m + 7) / 8 * 8 : m,
                 .n = 16 * random.between(1, 24),
                 .k = columns_a && columns_b ? k : (k + 7) / 8 * 8,
                 .transpose_a = columns_a,
                 .transpose_b = !columns_b,
                 .dtype_a = type,
                 .dtype_b = type};
    c.conv = plan::as_convolution(*c.product).conv;
    c.options.device = Device::cuda;
    c.options.plan = i < 16   ? ""
                     : i < 48 ? plans[i % std::size(plans)]
                              : fmt::format("tile=64x64 group={}{}", 2 + i % 3, i == 50 ? " cluster=2x1" : "");
    if (!is_served(c)) c.options.plan.clear();
    c.seed = random.next();
    cases.push_back(std::move(c));
  }
  return cases;
}

// One shape of each random family, and images that take the whole chip, in every mode
std::vector<Case> endurance_cases(std::uint64_t seed) {
  std::vector<Case> cases;
  for (Case& c : random_cases(seed, 40, 8))
    if (cases.empty() || cases.back().name != c.name) cases.push_back(std::move(c));
  const auto blocks = block_cases();
  for (std::size_t i = 0; i < 3; ++i) cases.push_back(blocks[i]);
  for (const char* plan : {"mode=streamed", "mode=streamed swap=on tile=128x64", "mode=streamed order=cooperative"}) {
    cases.push_back(blocks[0]);
    cases.back().options.plan = plan;
  }
  std::erase_if(cases, [](const Case& c) { return !is_served(c); });
  return cases;
}

std::vector<Case> delay_cases(std::uint64_t seed) {
  auto cases = random_cases(seed + 2, 30, 2);
  for (Case& c : cases) c.name = "delays, " + c.name, c.delays = c.options.watchdog = true;
  return cases;
}

std::vector<Case> all_cases(std::uint64_t seed) {
  std::vector<Case> all;
  const auto add = [&](std::vector<Case> more) { std::move(more.begin(), more.end(), std::back_inserter(all)); };
  add(random_cases(seed, 40, 8));
  add(block_cases());
  add(operation_cases());
  add(operand_cases());
  add(pixel_cases());
  add(product_cases(seed));
  add(gathered_cases(seed));
  add(depthwise_cases(seed));
  add(plain_cases(seed));
  add(resampled_cases(seed));
  add(fetched_cases(seed));
  add(moment_cases(seed));
  add(stationary_cases(seed));
  add(second_pass_cases(seed));
  add(row_cases(seed));
  add(group_cases(seed));
  add(phase_cases(seed));
  add(volume_cases(seed));
  add(flipped_cases(seed));
  add(deep_cases(seed));
  add(planes_cases(seed));
  add(dual_cases(seed));
  add(placed_cases(seed));
  add(im2col_smem_cases(seed));
  add(offset_cases());
  add(batch_cases());
  add(general_cases());
  add(general_offset_cases());
  add(wide_cases());
  add(general_plain_cases());
  add(grouped_cases());
  add(returned_cases());
  add(tf32_cases());
  add(delay_cases(seed));
  add(endurance_cases(seed));
  add(sanitizer_cases());
  return all;
}

}  // namespace unisono::gpu
