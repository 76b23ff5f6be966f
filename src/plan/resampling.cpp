#include "plan/resampling.hpp"

#include <fmt/format.h>

namespace unisono::plan {
Resampling resampling_of(const Resampled& wanted) {
  return {.only = wanted.only_upsampled, .pooled = !wanted.pooled.empty(), .upsampled = !wanted.upsampled.empty()};
}

std::optional<Refusal> resample(Epilogue& e, const Resampled& wanted, const Contraction& contraction) {
  if (!wanted.any()) return std::nullopt;
  if (has_left_and_right(contraction))
    return because(fmt::format("a pooled or upsampled store: {} has no image", to_string(contraction)));
  const auto main = main_store(e);
  if (!main)
    return because(
        "a pooled or upsampled store: it is made from a 16-bit result [m,n] that TMA writes, and there is no such "
        "result");
  const std::string& name = e.graph.stores[*main].name;
  if (e.wide_main())
    return because(
        fmt::format("a pooled or upsampled store: its source '{}' has 32 bits per element, and an image's tiles do not "
                    "fit in flight. Store it as bf16 or f16",
                    name));
  if (!wanted.source.empty() && wanted.source != name)
    return because(
        fmt::format("a pooled or upsampled store: the kernel writes '{}' last, and '{}' is made of another store", name,
                    wanted.pooled.empty() ? wanted.upsampled : wanted.pooled));
  e.resampled = wanted;
  return std::nullopt;
}

std::optional<Refusal> resample(Forms& forms, const Resampled& wanted, const Contraction& contraction) {
  for (std::size_t i = 0; i < forms.list.size(); ++i) {
    auto refusal = resample(forms.list[i], wanted, contraction);
    if (!refusal) continue;
    if (i == 0) return refusal;
    if (forms.list[i].results == Results::any && !forms.list[i].normalises_rows())
      forms.not_streamed = refusal->first();
    forms.list.erase(forms.list.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  return std::nullopt;
}

std::string to_string(const Resampling& r) {
  std::string text = r.upsampled ? r.only ? "upsampled only" : "upsampled" : "";
  if (r.pooled) text += text.empty() ? "pooled" : ", pooled";
  return text;
}

}  // namespace unisono::plan
