#include "families/sm90_conv/fetching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "families/sm90/fields.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"
#include "families/sm90_conv/rows.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "families/sm90_conv/stages.hpp"
#include "families/sm90_conv/streaming.hpp"

namespace unisono::families::sm90_conv {
namespace {

constexpr int most_buffers = 32;  ///< a warp's: a bit of a word holds each one's parity

/// What keeps a configuration from fetching anything, whatever the operands; nothing: it can.
std::optional<plan::Refusal> beyond_fetching(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (!by_tma(c.features.stores))
    return plan::because("results leave by ordinary stores, operands come by ordinary loads");
  if (c.by_parity()) return plan::because("rows of a parity phase are every second pixel of every second image row");
  if (c.features.in_shared) return plan::because("in shared memory lanes load eight channels of a row at once");
  if (c.mode() == sm90::NormMode::streamed) return plan::because("streamed, the staging buffers hold tiles that wait");
  if (p.second_pass && !p.visitor.short_tensors_before)
    return plan::because(
        "after a normalisation over rows, results of more than 16 bits, or of rows' values, leave from registers");
  if (p.visitor.returned_levels > 0)
    return plan::because("a general epilogue with reductions over rows' channels passes over a tile several times");
  if (p.visitor.general && p.visitor.fold_words > 0 && c.tile.m / c.schedule.warpgroups() > 64)
    return plan::because(
        "a general epilogue that reduces channels goes through 128 rows of a warpgroup, or more, in another order");
  return {};
}

}  // namespace

int fetchable(const ConvConfig& c, const sm90::ConvProblem& p) {
  return beyond_fetching(c, p) ? 0 : std::min(p.fetchable, most_fetched);
}

void add_fetching(std::vector<ConvConfig>& list, const ConvConfig& base, const sm90::ConvProblem& p,
                  const plan::Device& d, const sm90::FixedFields& fixed) {
  const int most = fetchable(base, p);
  std::set<int> counts{0, std::min(1, most), std::min(3, most), most};
  if (fixed.fetch) counts = {*fixed.fetch};
  for (const int count : counts) {
    list.push_back(base);
    if (most == 0 && count == 0) continue;
    list.back().features.fetch = count;
    if (count > 0 && !choose_buffers(list.back(), p, d, fixed) && !fixed.fetch) list.pop_back();
  }
}

void add_staged(std::vector<ConvConfig>& list, ConvConfig base, const sm90::ConvProblem& p, const plan::Device& d,
                const sm90::FixedFields& fixed) {
  if (base.resident()) {
    for (const ResidentStatistics& s : resident_choices(base, p, d, fixed)) {
      base.statistics = s;
      add_fetching(list, base, p, d, fixed);
    }
    return;
  }
  if (base.rows_meet() && deferral_pays(base, p, d, fixed)) {
    ConvConfig deferred = base;
    deferred.statistics = RowStatistics{.meets = true, .deferred = true};
    choose_stages(deferred, p, d, fixed);
    add_fetching(list, deferred, p, d, fixed);
  }
  if (!base.streamed()) return add_fetching(list, base, p, d, fixed);
  for (const StreamedStatistics& s : streamed_choices(base, p, d, fixed)) {
    base.statistics = s;
    add_fetching(list, base, p, d, fixed);
  }
}

std::optional<plan::Refusal> refuse_fetch(const ConvConfig& c, const sm90::ConvProblem& p) {
  const int count = c.features.fetch.value_or(0);
  if (count == 0) return {};
  if (const auto beyond = beyond_fetching(c, p))
    return sm90::unfit("fetch: {} operands by TMA; {}", count, beyond->first());
  if (count > fetchable(c, p))
    return sm90::unfit("fetch: {} operands; {} [m,n] of 16 bits on one side of a normalisation, and up to {}", count,
                       p.fetchable, most_fetched);
  if (c.features.store_buffers > most_buffers)
    return sm90::unfit("fetch: into {} store buffers; up to {}", c.features.store_buffers, most_buffers);
  return {};
}

std::string describe_operands(const ConvConfig& c, const sm90::ConvProblem& p) {
  const int all = p.before.tensors + p.after.tensors, fetched = c.features.fetch.value_or(0);
  if (all == 0) return {};
  const auto beyond = beyond_fetching(c, p);
  const std::string by_loads = "by ordinary loads, before their use" + (beyond ? ": " + beyond->first() : "");
  const std::string by_tma =
      fmt::format("by TMA into the staging buffers, {} of the {} slices of a warp's tile before it",
                  c.features.store_buffers, stores_per_tile(c));
  if (fetched == 0) return by_loads;
  return fetched == all ? by_tma : fmt::format("{} of {} {}; the others {}", fetched, all, by_tma, by_loads);
}

}  // namespace unisono::families::sm90_conv
