#include "command/kernel_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "command/report.hpp"

namespace unisono::command {
namespace {

double gflops_of(const KernelReport& r) { return flop(r.problem.contraction) / (1e6 * r.timing.median_ms); }

/// JSON has no infinity.
nlohmann::json finite_or_null(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); }

nlohmann::json arrays_json(const Tensors& arrays) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, array] : arrays)
    object[name] = {{"shape", array.shape}, {"dtype", media::numpy_name(array.type)}};
  return object;
}

nlohmann::json agreement_json(const std::string& name, const reference::Agreement& a) {
  return {{"output", name},
          {"ok", is_right(a)},
          {"elements", a.elements},
          {"outside", a.outside},
          {"unclaimed", a.unclaimed},
          {"largest_error", finite_or_null(a.largest_error)},
          {"of_bound", finite_or_null(a.worst)}};
}

}  // namespace

std::string to_text(const reference::Agreement& a) {
  if (!a.ok())
    return fmt::format(
        "{} of {} values DISAGREE with the float64 reference: largest error {:.2g}, {:.3g} times its bound",
        grouped(a.outside), grouped(a.elements), a.largest_error, a.worst);
  if (!is_right(a))
    return fmt::format("NOTHING WAS COMPARED: the bounds of all {} values are infinite; try other inputs",
                       grouped(a.elements));
  const std::string unclaimed =
      a.unclaimed == 0 ? "" : fmt::format("; {} others have no bound and were left out", grouped(a.unclaimed));
  return fmt::format("{}{} values agree with the float64 reference: largest error {:.2g}, {:.0f} % of its bound{}",
                     a.unclaimed == 0 ? "all " : "", grouped(a.elements - a.unclaimed), a.largest_error, 100 * a.worst,
                     unclaimed);
}

std::string to_text(const KernelReport& r) {
  std::string out = fmt::format("{}{}time\n  {}, {:.4g} GFLOP/s of the contraction\n", r.kernel,
                                r.kernel.ends_with('\n') ? "" : "\n", to_text(r.timing), gflops_of(r));
  if (!r.agreements.empty()) out += "check\n";
  for (const auto& [name, agreement] : r.agreements) out += fmt::format("  {}: {}\n", name, to_text(agreement));
  out += "outputs\n";
  for (const auto& [name, array] : r.problem.outputs)
    out += fmt::format("  {} ({}) {}{}\n", name, fmt::join(array.shape, ","), media::numpy_name(array.type),
                       array.type == DType::bf16 ? ", written as float32" : "");
  out += "written\n";
  for (const std::string& file : r.files) out += "  " + file + "\n";
  return out;
}

nlohmann::json to_json(const KernelReport& r) {
  nlohmann::json object = {{"kind", "epilogue"},
                           {"contraction", to_string(r.problem.contraction)},
                           {"device", r.options.cuda ? "cuda" : "cpu"},
                           {"kernel", r.kernel},
                           {"inputs", arrays_json(r.problem.arrays)},
                           {"outputs", arrays_json(r.problem.outputs)},
                           {"time", to_json(r.timing)},
                           {"gflops", gflops_of(r)},
                           {"notes", r.problem.notes},
                           {"files", r.files}};
  if (!r.options.check) return object;
  object["check"] = nlohmann::json::array();
  for (const auto& [name, agreement] : r.agreements) object["check"].push_back(agreement_json(name, agreement));
  return object;
}

}  // namespace unisono::command
