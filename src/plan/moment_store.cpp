#include "plan/moment_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "unisono/error.hpp"

namespace unisono::plan {

std::optional<Refusal> refuse_moments(const Epilogue& e) {
  if (e.norm())
    return because(
        "statistics: the same launch normalises; it has statistics of its values before they are rounded, and in "
        "pieces "
        "that its own groups make");
  if (e.general())
    return because("statistics: rows of the epilogue have their own values, or reductions are stored (mode general)");
  if (!main_store(e)) return because("statistics: no result [m,n] of 16 bits is written");
  return std::nullopt;
}

std::optional<Refusal> store_moments(Epilogue& e, const StoredMoments& wanted, std::int64_t output_channels) {
  if (wanted.channels == 0) return std::nullopt;
  if (wanted.channels < 0 || output_channels % wanted.channels != 0)
    throw UserError(fmt::format("statistics of every {} channels; expected a divisor of the {} output channels",
                                wanted.channels, output_channels));
  if (wanted.name.empty() ||
      std::ranges::any_of(e.graph.stores, [&](const Store& s) { return s.name == wanted.name; }) ||
      wanted.name == e.resampled.pooled || wanted.name == e.resampled.upsampled)
    throw UserError(fmt::format("statistics: the name '{}' is {}; expected a new one", wanted.name,
                                wanted.name.empty() ? "empty" : "that of another output"));
  if (auto refusal = refuse_moments(e)) return refusal;
  e.moments = wanted;
  return std::nullopt;
}

}  // namespace unisono::plan
