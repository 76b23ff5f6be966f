#include "command/profile_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "command/fusion_report.hpp"
#include "command/output.hpp"
#include "explore/launches.hpp"
#include "network/kernel_numbers.hpp"

namespace unisono::command {
namespace {

struct StepSum {
  int steps = 0;
  double ms = 0, flop = 0, bytes = 0, floor_ms = 0, known_ms = 0;  ///< known_ms: of steps with a floor

  void add(const StepTime& s) {
    ++steps, ms += s.milliseconds, flop += s.flop, bytes += s.bytes, floor_ms += s.floor_ms;
    if (s.floor_ms > 0) known_ms += s.milliseconds;
  }
};

StepSum sum_of(const std::vector<StepTime>& steps) {
  StepSum sum;
  for (const StepTime& s : steps) sum.add(s);
  return sum;
}

std::map<explore::Kind, StepSum> by_kind(const Profile& p) {
  const std::vector<explore::Kind> kinds = explore::kinds_of(p.fusion, p.steps);
  std::map<explore::Kind, StepSum> sums;
  for (std::size_t i = 0; i < p.steps.size(); ++i) sums[kinds[i]].add(p.steps[i]);
  return sums;
}

std::string percent(double part, double whole) {
  return part > 0 && whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}
std::string rate(double count, double ms, double unit) {
  return count > 0 && ms > 0 ? fmt::format("{:.1f}", count / ms / unit) : "-";
}

/// The columns of rates: what is known of this device.
class RateColumns {
 public:
  explicit RateColumns(const StepSum& all) : on_gpu_(all.floor_ms > 0), has_flop_(all.flop > 0) {}

  std::vector<std::string> heads() const {
    if (on_gpu_) return {"TFLOP/s", "GB/s", "of peak"};
    return has_flop_ ? std::vector<std::string>{"GFLOP/s"} : std::vector<std::string>{};
  }
  std::vector<std::string> cells(const StepSum& s) const {
    if (on_gpu_) return {rate(s.flop, s.ms, 1e9), rate(s.bytes, s.ms, 1e6), percent(s.floor_ms, s.known_ms)};
    return has_flop_ ? std::vector{rate(s.flop, s.ms, 1e6)} : std::vector<std::string>{};
  }

 private:
  bool on_gpu_, has_flop_;
};

void append_to(std::vector<std::string>& row, const std::vector<std::string>& more) {
  row.insert(row.end(), more.begin(), more.end());
}

/// Places of the steps as they are printed.
std::vector<std::size_t> sorted(const std::vector<StepTime>& steps, StepOrder order) {
  std::vector<std::size_t> places(steps.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto lost = [&](std::size_t i) {
    return steps[i].floor_ms > 0 ? steps[i].milliseconds - steps[i].floor_ms : 0;
  };
  if (order == StepOrder::time)
    std::ranges::stable_sort(places, std::greater{}, [&](std::size_t i) { return steps[i].milliseconds; });
  if (order == StepOrder::lost) std::ranges::stable_sort(places, std::greater{}, lost);
  return places;
}

std::string step_table(const Profile& p, const StepSum& all, StepOrder order) {
  const network::KernelNumbers numbers(p.fusion);
  const RateColumns rates(all);
  const int runs = p.spread.empty() ? 0 : p.run.runs;
  std::vector<std::string> heads{"kernel", "ms", "share"};
  if (runs > 1) heads.emplace_back("fastest");
  if (runs >= 10) heads.emplace_back("p90");
  if (runs >= 100) heads.emplace_back("p99");
  append_to(heads, rates.heads());
  const std::vector<bool> right(heads.size(), true);
  append_to(heads, {"step", "what"});
  Table table(heads, right);
  for (const std::size_t i : sorted(p.steps, order)) {
    const StepTime& s = p.steps[i];
    const int kernel = numbers.of(s.name);
    std::vector<std::string> row{kernel == 0 ? "-" : std::to_string(kernel), fmt::format("{:.3f}", s.milliseconds),
                                 percent(s.milliseconds, all.ms)};
    if (runs > 1) row.push_back(fmt::format("{:.3f}", p.spread[i].fastest_ms));
    if (runs >= 10) row.push_back(fmt::format("{:.3f}", p.spread[i].p90_ms));
    if (runs >= 100) row.push_back(fmt::format("{:.3f}", p.spread[i].p99_ms));
    append_to(row, rates.cells(sum_of({s})));
    append_to(row, {s.name, s.what});
    table.row(row);
  }
  return table.text("  ");
}

std::string kind_table(const Profile& p, const StepSum& all) {
  const RateColumns rates(all);
  std::vector<std::string> heads{"steps", "ms", "share"};
  append_to(heads, rates.heads());
  const std::vector<bool> right(heads.size(), true);
  heads.emplace_back("kind");
  Table table(heads, right);
  for (const auto& [kind, sum] : by_kind(p)) {
    std::vector<std::string> row{std::to_string(sum.steps), fmt::format("{:.3f}", sum.ms), percent(sum.ms, all.ms)};
    append_to(row, rates.cells(sum));
    row.emplace_back(explore::to_string(kind));
    table.row(row);
  }
  return "by kind\n" + table.text("  ");
}

/// The run's time next to the sum of its steps.
std::string between(const Profile& p, const StepSum& all) {
  if (p.run.runs == 0) return fmt::format("  {:.3f} ms in steps\n", all.ms);
  const double rest = p.run.median_ms - all.ms;
  const bool on_gpu = all.floor_ms > 0;
  const char* const why = rest < 0 ? "less: launches overlap, or a step waits for its own time"
                          : on_gpu ? "between them: copies of inputs and outputs, and the start of the graph"
                                   : "between them: other work on these cores, threads that wake up, and bookkeeping";
  return fmt::format("  {:.3f} ms in steps, {:.3f} ms the median run: {:.3f} ms {}\n", all.ms, p.run.median_ms,
                     std::abs(rest), why);
}

}  // namespace

std::string to_text(const Profile& p, StepOrder order) {
  const StepSum all = sum_of(p.steps);
  std::string text = step_table(p, all, order) + kind_table(p, all) + between(p, all);
  if (all.floor_ms > 0)
    text += fmt::format("  the peaks of arithmetic and memory allow {:.3f} ms, {}\n", all.floor_ms,
                        percent(all.floor_ms, all.known_ms));
  return text;
}

nlohmann::json steps_json(const Profile& p) {
  const network::KernelNumbers numbers(p.fusion);
  const std::vector<explore::Kind> kinds = explore::kinds_of(p.fusion, p.steps);
  nlohmann::json steps = nlohmann::json::array();
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const StepTime& s = p.steps[i];
    nlohmann::json step{{"kernel", number_or_null(numbers.of(s.name))}, {"name", s.name},       {"what", s.what},
                        {"kind", explore::to_string(kinds[i])},         {"ms", s.milliseconds}, {"flop", s.flop}};
    if (!p.spread.empty())
      step.update(
          {{"fastest_ms", p.spread[i].fastest_ms}, {"p90_ms", p.spread[i].p90_ms}, {"p99_ms", p.spread[i].p99_ms}});
    if (!s.how.empty()) step.update({{"how", s.how}, {"bytes", s.bytes}, {"floor_ms", s.floor_ms}});
    steps.push_back(std::move(step));
  }
  return steps;
}

nlohmann::json totals_json(const Profile& p) {
  const StepSum all = sum_of(p.steps);
  nlohmann::json kinds = nlohmann::json::array();
  for (const auto& [kind, sum] : by_kind(p))
    kinds.push_back({{"kind", explore::to_string(kind)},
                     {"steps", sum.steps},
                     {"ms", sum.ms},
                     {"flop", sum.flop},
                     {"bytes", sum.bytes},
                     {"floor_ms", sum.floor_ms}});
  nlohmann::json totals{{"steps_ms", all.ms}, {"kinds", std::move(kinds)}};
  if (p.run.runs > 0) totals["between_ms"] = p.run.median_ms - all.ms;
  return totals;
}

Throughput throughput_of(const Network& network, const Tensors& inputs, const Timing& timing) {
  for (const TensorId id : network.inputs) {
    const auto given = inputs.find(network[id].name);
    if (given == inputs.end() || given->second.shape.size() < 2) continue;
    const std::vector<std::int64_t>& shape = given->second.shape;
    return {timing.median_ms > 0 ? 1000 * static_cast<double>(shape[0]) / timing.median_ms : 0,
            shape.size() == 4 ? "images" : "examples"};
  }
  return {timing.median_ms > 0 ? 1000 / timing.median_ms : 0, "examples"};
}

std::string to_text(const Throughput& t) { return fmt::format("{:.1f} {}/s", t.per_second, t.unit); }

}  // namespace unisono::command
