#include "command/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace unisono::command {
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

namespace {

/// Which elements were not compared, and why.
std::string left_out(const float64::NetworkAgreement& a) {
  std::string text;
  if (a.undecided > 0) text += fmt::format("; {} values depend on rounding and were left out", grouped(a.undecided));
  if (a.unclaimed > 0)
    text += fmt::format("; {} values depend on an overflow of float32 and were left out", grouped(a.unclaimed));
  if (a.not_numbers > 0) text += fmt::format("; {} values are NaN in both", grouped(a.not_numbers));
  return text;
}

/// Why no number was compared.
std::string nothing_compared(const float64::NetworkAgreement& a) {
  const std::string all = grouped(a.elements);
  if (a.not_numbers == a.elements) return fmt::format("all {} values are NaN in the float64 reference", all);
  if (a.undecided == a.elements) return fmt::format("all {} values depend on rounding in the float64 reference", all);
  if (a.unclaimed == a.elements) return fmt::format("all {} values depend on an overflow of float32", all);
  return fmt::format("of {} values none is a number that can be compared{}", all, left_out(a));
}

}  // namespace

std::string to_text(const float64::NetworkAgreement& a) {
  if (a.elements == 0) return "NOTHING WAS COMPARED: the output has no elements";
  if (!a.compared()) return fmt::format("NOTHING WAS COMPARED: {}; try other inputs", nothing_compared(a));
  if (a.misread > 0)
    return fmt::format(
        "{} of {} values of the network as imported DIFFER from ONNX's definitions, by up to {:.1e} (tolerance "
        "{:.1e}): "
        "the importer is wrong, please report it; {} values of the result are wrong",
        grouped(a.misread), grouped(a.elements), a.misread_error, a.tolerance, grouped(a.outside));
  const std::string figures =
      fmt::format("largest error {:.1e}, tolerance {:.1e}{}", a.largest_error, a.tolerance, left_out(a));
  if (!a.ok())
    return fmt::format("{} of {} values DISAGREE with the float64 reference: {}", grouped(a.outside),
                       grouped(a.elements), figures);
  if (a.judged() < a.elements)
    return fmt::format("{} of {} values agree with the float64 reference: {}", grouped(a.judged()), grouped(a.elements),
                       figures);
  return fmt::format("all {} values agree with the float64 reference: {}", grouped(a.elements), figures);
}

nlohmann::json to_json(const float64::NetworkAgreement& a) {
  return {{"output", a.output},
          {"ok", a.ok() && a.compared()},
          {"elements", a.elements},
          {"outside", a.outside},
          {"undecided", a.undecided},
          {"unclaimed", a.unclaimed},
          {"not_numbers", a.not_numbers},
          {"misread", a.misread},
          {"largest_error", number(a.largest_error)},
          {"tolerance", number(a.tolerance)},
          {"largest_value", number(a.largest_value)}};
}

std::string to_text(const Timing& t) {
  const auto three_digits = [](double ms) { return ms >= 1 ? fmt::format("{:.2f}", ms) : fmt::format("{:.3g}", ms); };
  if (t.runs == 0) return fmt::format("{} ms (one run)", three_digits(t.first_ms));
  std::string others;
  if (t.runs > 1) others += "; fastest " + three_digits(t.fastest_ms);
  if (t.runs >= 10) others += ", p90 " + three_digits(t.p90_ms);
  if (t.runs >= 100) others += ", p99 " + three_digits(t.p99_ms);
  return fmt::format("{} ms a run (median of {}{}), the first {:.1f} ms", three_digits(t.median_ms), t.runs, others,
                     t.first_ms);
}

nlohmann::json to_json(const Timing& t) {
  return {{"first_ms", t.first_ms}, {"fastest_ms", t.fastest_ms}, {"median_ms", t.median_ms},
          {"p90_ms", t.p90_ms},     {"p99_ms", t.p99_ms},         {"runs", t.runs}};
}

nlohmann::json to_json(const Peak& p, const std::vector<std::string>& classes, double scale_x, double scale_y) {
  return {{"class", p.class_index},
          {"name", classes.at(static_cast<std::size_t>(p.class_index))},
          {"x", (static_cast<double>(p.x) + 0.5) * scale_x - 0.5},
          {"y", (static_cast<double>(p.y) + 0.5) * scale_y - 0.5},
          {"score", p.score}};
}

}  // namespace unisono::command
