#include "tuning/choose.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <system_error>

#include "passes/gather_factors.hpp"
#include "support/environment.hpp"
#include "tuning/database.hpp"
#include "unisono/error.hpp"

namespace unisono::tuning {
namespace {

void warn_once(const std::string& what) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(what).second) fmt::print(stderr, "unisono: {}\n", what);
}

/// By device and its SMs, then key: whatever the driver and the kernels that a row was measured with.
using ShippedRows = std::map<std::pair<std::string, int>, std::map<Key, Row>>;

const ShippedRows& shipped_rows() {
  static const ShippedRows all = [] {
    ShippedRows rows;
    for (Row& r : parse_rows(shipped_text(), "the plans in the library"))
      rows[{r.platform.device, r.platform.sms}].insert_or_assign(r.key, r);
    return rows;
  }();
  return all;
}

std::optional<Row> shipped_row(const Platform& platform, const Key& key) {
  const auto device = shipped_rows().find({platform.device, platform.sms});
  if (device == shipped_rows().end()) return std::nullopt;
  const auto found = device->second.find(key);
  return found == device->second.end() ? std::nullopt : std::optional(found->second);
}

/// Files that were found locked: this process waits for none of them again.
class GivenUp {
 public:
  bool contains(const std::filesystem::path& file) {
    const std::lock_guard lock(mutex_);
    return files_.contains(file);
  }
  void add(const std::filesystem::path& file) {
    const std::lock_guard lock(mutex_);
    files_.insert(file);
  }

 private:
  std::mutex mutex_;
  std::set<std::filesystem::path> files_;
};

std::optional<Row> tuned_row(const Platform& platform, const Key& key) {
  static GivenUp given_up;
  const auto file = support::tuning_file();
  std::error_code failed;
  if (!file || !std::filesystem::exists(*file, failed) || given_up.contains(*file)) return std::nullopt;
  try {
    return Database(*file, Database::Access::read, patience_of_a_lookup).find(platform, key);
  } catch (const DatabaseLocked& error) {  // a lock of somebody else's: no measured plan is worth waiting for it
    given_up.add(*file);
    warn_once(fmt::format("measured plans are not used in this process: {}", error.what()));
    return std::nullopt;
  } catch (const UserError& error) {  // a damaged file, which the user is told: whatever asks for a kernel gets one
    warn_once(fmt::format("measured plans are not used: {}", error.what()));
    return std::nullopt;
  }
}

/// The plan that a row's text gives, if it is one for this problem.
plan::Expected<families::PlanPointer> parsed_plan(const std::string& text, const families::Workload& workload) {
  try {
    const auto fixed = parse_plan(text);
    if (fixed.fields.empty()) return plan::because("it fixes nothing");
    return families::choose(workload, fixed);
  } catch (const UserError& error) {  // rows come from files, which hold texts that are no plan's
    return plan::because(error.what());
  }
}

families::PlanPointer plan_of(const Row& row, const std::string& source, const families::Workload& workload,
                              bool warns) {
  auto plan = parsed_plan(row.plan, workload);
  if (plan) return *plan;
  const std::string text = plan.refusal().told();
  if (warns)
    warn_once(fmt::format("a plan of {} is not used: '{}': {}", source, to_line(row), text.substr(0, text.find('\n'))));
  return nullptr;
}

/// The user's row of this key, else a shipped one; `own`: it is this problem's, and has to serve it.
std::optional<Chosen> measured_plan(const Key& key, bool own, const families::Workload& workload) {
  const Platform platform = platform_of(workload.device);
  if (const auto row = tuned_row(platform, key))
    if (const auto plan = plan_of(*row, support::tuning_file()->string(), workload, own))
      return Chosen{plan, Origin::tuned, row};
  if (const auto row = shipped_row(platform, key))
    if (const auto plan = plan_of(*row, "the library", workload, own)) return Chosen{plan, Origin::shipped, row};
  return std::nullopt;
}

}  // namespace

plan::Expected<Chosen> choose(const families::Workload& workload, const PlanOverride& fixed, bool measured) {
  if (fixed.fields.empty() && measured && !support::tuning_is_off()) {
    if (auto chosen = measured_plan(key_of(workload.task, workload.epilogue), true, workload))
      return *std::move(chosen);
    // what is measured of the same arithmetic in another order of factors serves a problem as well
    plan::Epilogue other = workload.epilogue;
    other.graph = passes::gather_factors(other.graph);
    if (!structurally_equal(other.graph, workload.epilogue.graph))
      if (auto chosen = measured_plan(key_of(workload.task, other), false, workload)) {
        chosen->gathered = true;
        return *std::move(chosen);
      }
  }
  auto plan = families::choose(workload, fixed);
  if (!plan) return std::move(plan).refusal();
  return Chosen{*std::move(plan), fixed.fields.empty() ? Origin::cost_model : Origin::fixed};
}

std::string to_string(const Chosen& c) {
  const char* const of = c.gathered ? ", of the same with its factors multiplied first" : "";
  switch (c.origin) {
    case Origin::cost_model: return "the cost model";
    case Origin::fixed: return "the caller's choice, the rest by the cost model";
    case Origin::tuned:
      return fmt::format("tuned {}, {:.1f} us measured{}", c.row->when.substr(0, 10), c.row->measured_us, of);
    case Origin::shipped:
      return fmt::format("shipped with the library for {}, {:.1f} us measured{}", c.row->platform.device,
                         c.row->measured_us, of);
  }
  return {};
}

}  // namespace unisono::tuning
