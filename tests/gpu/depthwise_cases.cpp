// Convolutions whose groups have one input channel, by the kernel that multiplies without matrix instructions.

#include <fmt/format.h>

#include <array>

#include "families/interface/family.hpp"
#include "families/registry.hpp"
#include "gpu/case.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/as_convolution.hpp"
#include "support/random.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

struct Text {
  const char* text;  ///< {T}: the dtype of 16 bits
  const char *witnessed = "", *axes = "";
};

constexpr Text texts[] = {
    {"store acc as y : {T}"},
    {"store relu(acc + bias[n]) as y : {T}"},
    {"store hardswish(acc + bias[n]) as y : {T}"},
    {"operand r[m,n] : {T}\nstore silu(acc * s[b,n] + bias[n]) + r as y : {T}"},
    {"operand keep[m,n] : bool\noperand r[m,n]\nstore select(keep, acc * alpha[] + beta[] * r, t[b]) as y : {T}"},
    {"h = acc + bias[n]\nstore h : {T}\nstore tanh(h) as y : {T}"},
    {"store acc + bias[n] as y : f32"},
    {"operand keep[m] : bool\nstore select(keep, relu(acc + bias[n]), s[m]) as y : {T}"},
    {"inside = index(h) > 0 & index(w) < extent(w) - 1\n"
     "store select(inside, acc, -acc) + 0.01 * index(n) + 0.25 * index(b) as y : {T}\nstore s[m] * 2 as rows : f32"},
    {"operand label[m] : i32\noperand more[m,n] : i32\nstore acc as a : {T}\nstore acc - one_hot(label) as b : bf16\n"
     "store acc * 2 as c : f16\nstore acc > 0 as positive : bool\nstore cast(acc * 8, i32) + more as i : i32"},
    {"store acc + bias[n] as y : {T}", "acc * 2", "mn"},
    {"store acc + s[m] as y : {T}", "s[m] + index(h)", "m"},
};

Conv2d draw_convolution(int kind, Random& r) {
  Conv2d c;
  c.c = kind % 3 == 0 ? 2 * r.between(1, 70) : 8 * r.between(1, 17);
  c.k = c.c * (kind % 7 == 6 ? r.one_of({2, 4}) : 1);
  c.groups = c.c;
  c.r = r.one_of({1, 3, 3, 3, 5, 5, 7, 9}), c.s = r.chance(0.7) ? c.r : r.between(1, 9);
  if (kind % 2 == 1) c.stride = {r.between(1, 3), r.between(1, 2)};
  if (kind % 4 == 1) c.stride = {2, 2};
  if (kind % 4 == 2) c.dilation = {r.between(1, 4), r.between(1, 4)};
  for (std::size_t side = 0; side < 4; ++side) c.pad[side] = r.between(0, 4);
  c.n = r.between(1, 4);
  const auto least = [](std::int64_t taps, std::int64_t dilation, std::int64_t pads) {
    return std::max<std::int64_t>(1, (taps - 1) * dilation + 1 - pads);
  };
  c.h = least(c.r, c.dilation[0], c.pad[0] + c.pad[2]) + r.between(0, 20);
  c.w = least(c.s, c.dilation[1], c.pad[1] + c.pad[3]) + r.between(0, 20);
  return c;
}

Case depthwise_case(const std::string& name, const Conv2d& conv, const Text& text, DType type) {
  Case c{.name = name, .conv = conv, .text = filled(text.text, type == DType::f32 ? DType::bf16 : type), .options = {}};
  c.witnessed = text.witnessed, c.witness_axes = text.axes;
  c.conv.dtype_x = c.conv.dtype_w = type;
  c.options.device = Device::cuda;
  c.scalars = {};
  if (c.text.find("alpha[]") != std::string::npos) c.scalars = {{"alpha", 0.75}, {"beta", -1.5}};
  return c;
}

// Any plan of the kernel
std::string draw_plan(const Case& c, Random& r) {
  const plan::Epilogue e =
      plan::analyse(passes::run_pipeline(graph_of(c)), extents(c.contraction()), families::tile_limits()).value();
  std::vector<std::string> plans;
  for (const families::Candidate& x : families::candidates({c.conv, e, planning_device()}).value())
    if (x.is_legal()) plans.push_back(to_string(families::override_of(*x.plan)));
  return plans[static_cast<std::size_t>(r.below(static_cast<int>(plans.size())))];
}

}  // namespace

std::vector<Case> depthwise_cases(std::uint64_t seed) {
  Random r(seed + 17);
  std::vector<Case> cases;
  for (int i = 0; i < 96; ++i) {
    const DType type = i % 5 == 1 ? DType::f16 : i % 5 == 3 ? DType::f32 : DType::bf16;
    Case c = depthwise_case(fmt::format("depthwise {}", i), draw_convolution(i, r), texts[i % std::size(texts)], type);
    c.seed = r.next();
    if (i % 3 != 0) c.options.plan = draw_plan(c, r);
    if (i % 4 == 1 && c.conv.c % 8 == 0) c.gaps.image = 8 * r.between(1, 3);
    if (i % 8 < 3 && c.conv.k % 8 == 0 && c.text.find("as y : f32") == std::string::npos)
      c.gaps.output = 8 * r.between(1, 3);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<Case> small_depthwise_cases() {
  const auto conv = [](std::int64_t channels, std::int64_t taps, std::int64_t stride, std::int64_t dilation) {
    return Conv2d{.n = 2,
                  .h = 13,
                  .w = 11,
                  .c = channels,
                  .k = channels,
                  .r = taps,
                  .s = taps,
                  .stride = {stride, stride},
                  .pad = {taps / 2, 1, 0, 2},
                  .dilation = {dilation, dilation},
                  .groups = channels};
  };
  std::vector<Case> cases;
  const auto add = [&](const Conv2d& c, std::size_t text, DType type, std::string plan) {
    cases.push_back(depthwise_case("depthwise", c, texts[text], type));
    cases.back().options.plan = std::move(plan);
  };
  add(conv(24, 3, 1, 1), 3, DType::bf16, "thread=5x4x4");
  add(conv(16, 3, 2, 1), 5, DType::f16, "thread=4x2x8");
  add(conv(10, 5, 1, 2), 9, DType::bf16, "");
  add(conv(12, 9, 1, 1), 8, DType::f32, "");
  // Gradients of images, by the taps in reverse: of a known filter, and tap by tap
  for (const auto& [c, plan] : {std::pair{conv(24, 3, 1, 1), "thread=3x2x4"}, {conv(10, 5, 1, 2), "thread=2x2x2"}}) {
    add(c, 3, DType::bf16, plan);
    cases.back().transposed = input_gradient(cases.back().conv);
    cases.back().conv = plan::as_convolution(*cases.back().transposed).conv;
  }
  Conv2d doubled = conv(12, 3, 1, 1);
  doubled.k = 24;
  add(doubled, 10, DType::bf16, "thread=4x4x4");
  return cases;
}

}  // namespace unisono::gpu
