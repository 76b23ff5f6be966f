#include "command/fusion_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <span>

#include "command/output.hpp"
#include "network/kernel_numbers.hpp"

namespace unisono::command {
namespace {

using Kind = RegionReport::Kind;

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::contraction: return "contraction";
    case Kind::epilogue: return "epilogue";
    case Kind::single: return "single";
    case Kind::free: return "free";
  }
  return "";
}

/// What runs behind the contraction in the same kernel.
std::string fused_text(const RegionReport& region) {
  const std::span<const std::string> all(region.operators);
  const auto behind = region.kind == Kind::epilogue ? all : all.subspan(std::min<std::size_t>(1, all.size()));
  if (behind.empty()) return region.kind == Kind::free ? "costs nothing" : "";
  return fmt::format("+ {}", fmt::join(behind, " + "));
}

}  // namespace

std::string region_table(const FusionReport& report) {
  Table table({"kernel", "contraction or operator", "fused into it"}, {true});
  const network::KernelNumbers numbers(report);
  for (const RegionReport& region : report.regions) {
    table.row({region.kind == Kind::free ? "-" : std::to_string(numbers.of(region.name)),
               region.kind == Kind::epilogue ? "epilogue over " + region.name : region.contraction,
               fused_text(region)});
  }
  return table.text("  ");
}

std::string bytes_text(std::size_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b < 1024) return fmt::format("{} B", bytes);
  if (b < 0x1p20) return fmt::format("{:.1f} KiB", b / 0x1p10);
  return b < 0x1p30 ? fmt::format("{:.1f} MiB", b / 0x1p20) : fmt::format("{:.2f} GiB", b / 0x1p30);
}

std::string memory_text(const MemoryReport& m) {
  return fmt::format(
             "  intermediates  {} in one arena; {} if each had its own memory\n"
             "  constants      {}\n"
             "  saved          {} steps work in place, {} inputs of concatenations are written where they belong\n",
             bytes_text(m.arena), bytes_text(m.without_reuse), bytes_text(m.constants), m.in_place, m.free_concats) +
         (m.device_peak == 0 ? "" : fmt::format("  on the GPU     {} at the peak\n", bytes_text(m.device_peak)));
}

nlohmann::json number_or_null(int kernel) { return kernel == 0 ? nlohmann::json(nullptr) : nlohmann::json(kernel); }

nlohmann::json to_json(const FusionReport& report) {
  nlohmann::json regions = nlohmann::json::array();
  const network::KernelNumbers numbers(report);
  for (const RegionReport& r : report.regions) {
    regions.push_back({{"kernel", number_or_null(numbers.of(r.name))},
                       {"kind", to_string(r.kind)},
                       {"name", r.name},
                       {"contraction", r.contraction},
                       {"operators", r.operators},
                       {"epilogue", r.epilogue},
                       {"outputs", r.outputs},
                       {"note", r.note}});
  }
  return {{"operators", report.operators}, {"kernels", report.kernels}, {"regions", regions}};
}

nlohmann::json to_json(const MemoryReport& m) {
  return {{"arena_bytes", m.arena}, {"without_reuse_bytes", m.without_reuse}, {"constant_bytes", m.constants},
          {"in_place", m.in_place}, {"free_concats", m.free_concats},         {"device_peak_bytes", m.device_peak}};
}

}  // namespace unisono::command
