#include "plan/moment_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/conv.hpp"
#include "plan/conv_problem.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

std::string refuse_moments(const Epilogue& e) {
  if (e.norm)
    return "moments: the same launch normalises; it has statistics of its values before they are rounded, and in "
           "pieces "
           "that its own groups make";
  if (e.general)
    return "moments: rows of the epilogue have values of their own, or reductions are stored (mode general)";
  if (!main_store(e)) return "moments: no result [m,n] of 16 bits is written";
  return {};
}

void store_moments(Epilogue& e, const StoredMoments& wanted, std::int64_t output_channels) {
  if (wanted.channels == 0) return;
  if (wanted.channels < 0 || output_channels % wanted.channels != 0)
    throw UserError(fmt::format("moments of every {} channels; expected a divisor of the {} output channels",
                                wanted.channels, output_channels));
  if (wanted.name.empty() ||
      std::ranges::any_of(e.graph.stores, [&](const Store& s) { return s.name == wanted.name; }) ||
      wanted.name == e.resampled.pooled || wanted.name == e.resampled.enlarged)
    throw UserError(fmt::format("moments: the name '{}' is {}; expected one of their own", wanted.name,
                                wanted.name.empty() ? "empty" : "that of another output"));
  if (const std::string why = refuse_moments(e); !why.empty()) throw Unsupported(why);
  e.moments = wanted;
}

// Few channels a unit: its entries of a tile are merged one after another, by a thread each. An even number, if there
// is one: lanes then merge two channels at once.
int moments_unit(const ConvProblem& p, int tile_n) {
  if (p.moments == 0) return 0;
  const auto whole = std::gcd(p.moments, std::int64_t{tile_n});
  for (const int unit : {4, 2, 5, 3})
    if (whole % unit == 0) return unit;
  return 1;
}

std::vector<std::int64_t> moments_shape(const ConvPlan& p, std::int64_t output_channels) {
  return {p.images, p.slots_per_image, output_channels / p.config.moments, 4};
}

}  // namespace unisono::plan
