#include "command/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "command/output.hpp"

namespace coda::command {
namespace {

/// JSON has no infinity.
nlohmann::json number(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); }

}  // namespace

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (n < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string to_text(const NetworkAgreement& a) {
  std::string figures = fmt::format("largest error {:.1e}, tolerance {:.1e}", a.largest_error, a.tolerance);
  if (a.undecided > 0) figures += fmt::format("; {} values depend on rounding and were left out", grouped(a.undecided));
  if (a.ok() && a.undecided > 0)
    return fmt::format("{} of {} values agree with the float64 reference: {}", grouped(a.elements - a.undecided),
                       grouped(a.elements), figures);
  if (a.ok()) return fmt::format("all {} values agree with the float64 reference: {}", grouped(a.elements), figures);
  return fmt::format("{} of {} values DISAGREE with the float64 reference: {}", grouped(a.outside), grouped(a.elements),
                     figures);
}

nlohmann::json to_json(const NetworkAgreement& a) {
  return {{"output", a.output},
          {"ok", a.ok()},
          {"elements", a.elements},
          {"outside", a.outside},
          {"undecided", a.undecided},
          {"largest_error", number(a.largest_error)},
          {"tolerance", number(a.tolerance)},
          {"largest_value", number(a.largest_value)}};
}

std::string to_text(const Timing& t) {
  if (t.runs == 0) return fmt::format("{:.2f} ms (one run)", t.first_ms);
  return fmt::format("{:.2f} ms a run (median of {}), the first {:.1f} ms", t.median_ms, t.runs, t.first_ms);
}

nlohmann::json to_json(const Timing& t) {
  return {{"first_ms", t.first_ms}, {"median_ms", t.median_ms}, {"runs", t.runs}};
}

std::string profile_table(const std::vector<StepTime>& profile) {
  double total = 0;
  for (const StepTime& step : profile) total += step.milliseconds;
  Table table({"ms", "share", "step", "what"}, {true, true});
  for (const StepTime& step : profile) {
    table.row({fmt::format("{:.3f}", step.milliseconds),
               fmt::format("{:.1f} %", total > 0 ? 100 * step.milliseconds / total : 0), step.name, step.what});
  }
  return table.text("  ");
}

nlohmann::json to_json(const std::vector<StepTime>& profile) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StepTime& s : profile) steps.push_back({{"name", s.name}, {"what", s.what}, {"ms", s.milliseconds}});
  return steps;
}

nlohmann::json to_json(const Peak& p, const std::vector<std::string>& classes, double scale_x, double scale_y) {
  return {{"class", p.class_index},
          {"name", classes.at(static_cast<std::size_t>(p.class_index))},
          {"x", (static_cast<double>(p.x) + 0.5) * scale_x - 0.5},
          {"y", (static_cast<double>(p.y) + 0.5) * scale_y - 0.5},
          {"score", p.score}};
}

}  // namespace coda::command
