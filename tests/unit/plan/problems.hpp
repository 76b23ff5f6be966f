#pragma once
/// Convolutions and epilogues for the tests of plans.

#include <string>

#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/epilogue.hpp"
#include "unisono/text.hpp"

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

/// All forms of an epilogue, or the first of them.
struct Analysed : Forms {
  operator const Epilogue&() const { return list.front(); }
  const Epilogue* operator->() const { return &list.front(); }
};

inline Analysed epilogue_of(const std::string& text, const Contraction& conv) {
  return {analyse_forms(passes::run_pipeline(parse(text)), extents(conv), {.channels = 256}).value()};
}

inline bool is_rows(const Epilogue& form) { return form.normalises_rows(); }
inline bool is_second_pass(const Epilogue& form) { return form.results == Results::any && !is_rows(form); }

/// Throws what was refused.
inline void require(const std::optional<Refusal>& refusal) {
  if (refusal) throw Refused(*refusal);
}

}  // namespace unisono::plan::test
