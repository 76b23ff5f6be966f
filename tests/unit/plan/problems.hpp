#pragma once
/// Convolutions and epilogues for the tests of plans.

#include <memory>
#include <string>
#include <vector>

#include "families/registry.hpp"
#include "families/sm90_conv/conv.hpp"
#include "passes/passes.hpp"
#include "unisono/text.hpp"

namespace unisono::plan {

/// What the registry answers, as tests of the convolution kernels look at it.
struct Candidate {
  ConvPlan plan;
  std::string refusal;   ///< empty: legal
  bool is_conv = false;  ///< else `plan` is another family's, or none
};

inline std::vector<Candidate> candidates(const ConvTask& task, const Epilogue& epilogue, const Device& device,
                                         const Override& fixed = {}) {
  std::vector<Candidate> list;
  for (const families::Candidate& c : families::candidates({task, epilogue, device}, fixed)) {
    const auto* conv = dynamic_cast<const ConvPlan*>(c.plan.get());
    list.push_back({conv ? *conv : ConvPlan{}, c.refusal ? c.refusal->text() : "", conv != nullptr});
  }
  return list;
}

inline ConvPlan choose(const ConvTask& task, const Epilogue& epilogue, const Device& device,
                       const Override& fixed = {}) {
  return dynamic_cast<const ConvPlan&>(*families::choose({task, epilogue, device}, fixed));
}

inline std::string explain(const ConvTask& task, const Epilogue& epilogue, const Device& device,
                           const Override& fixed = {}, std::size_t alternatives = 5) {
  return families::explain({task, epilogue, device}, fixed, alternatives);
}

}  // namespace unisono::plan

namespace unisono::plan::test {

inline constexpr const char* bare = "store acc as y : bf16\n";
inline constexpr const char* bias_silu = "store silu(acc + bias[n]) as y : bf16\n";
inline constexpr const char* block =
    "store silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n], eps=1e-5)) as y : bf16\n";

/// n x h x w x c images, k filters of r x r taps, stride 1, padded to the same size.
inline Conv2d conv_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t r) {
  Conv2d conv;
  conv.n = n, conv.h = h, conv.w = w, conv.c = c, conv.k = k, conv.r = conv.s = r;
  conv.pad = {r / 2, r / 2, r / 2, r / 2};
  conv.dtype_x = conv.dtype_w = DType::bf16;
  return conv;
}

inline Epilogue epilogue_of(const std::string& text, const Conv2d& conv) {
  return analyse(passes::run_pipeline(parse(text)), extents(conv));
}

/// "128x160 pingpong patch resident": what matters of a plan, without the depths of its rings.
inline std::string sketch(const ConvConfig& c) {
  std::string text = std::to_string(c.tile.m) + "x" + std::to_string(c.tile.n);
  text += " " + std::string(to_string(c.schedule.order));
  text += c.window() ? " unfold" : c.two_dimensional() ? " patch" : " runs";
  if (c.schedule.cluster.ctas() > 1)
    text += " " + std::to_string(c.schedule.cluster.m) + "x" + std::to_string(c.schedule.cluster.n);
  if (c.schedule.split) text += " split";
  if (c.schedule.swap) text += " swap";
  if (c.mode() == NormMode::resident) text += " resident";
  if (c.mode() == NormMode::streamed) text += " streamed";
  if (c.mode() == NormMode::rows) text += " rows";
  if (c.mode() == NormMode::general) text += " general";
  return text;
}

}  // namespace unisono::plan::test
