#include "families/sm90_conv/config.hpp"

#include "unisono/error.hpp"
#include "unisono/params/sm90_kernel_params.cuh"

namespace unisono::families::sm90_conv {

Statistics statistics_of(sm90::NormMode mode) {
  switch (mode) {
    case sm90::NormMode::none: return NoStatistics{};
    case sm90::NormMode::resident: return ResidentStatistics{};
    case sm90::NormMode::streamed: return StreamedStatistics{};
    case sm90::NormMode::rows: return RowStatistics{};
    case sm90::NormMode::general: return GeneralReductions{};
  }
  throw InternalError("a mode of normalising without statistics");
}

const Im2colWindow* ConvConfig::window() const {
  const auto* explicitly = std::get_if<ExplicitIm2col>(&loader);
  return explicitly ? &explicitly->window : nullptr;
}

int ConvConfig::activation_stages() const {
  return std::visit(
      [](const auto& l) {
        if constexpr (requires { l.stages; }) return l.stages;
        return 0;
      },
      loader);
}

void ConvConfig::set_activation_stages(int stages) {
  std::visit(
      [stages](auto& l) {
        if constexpr (requires { l.stages; }) l.stages = stages;
      },
      loader);
}

int ConvConfig::unit() const {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.unit; }) return s.unit;
        return 1;
      },
      statistics);
}

bool ConvConfig::cut() const {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.cut; }) return s.cut;
        return false;
      },
      statistics);
}

bool ConvConfig::by_channels() const {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.by_channels; }) return s.by_channels;
        return false;
      },
      statistics);
}

int ConvConfig::floats() const {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.floats; }) return s.floats;
        return 0;
      },
      statistics);
}

bool ConvConfig::wide() const {
  const auto* general = std::get_if<GeneralReductions>(&statistics);
  return general ? general->wide : rows_meet();
}

bool ConvConfig::meets() const {
  const auto* general = std::get_if<GeneralReductions>(&statistics);
  return general ? general->meets : rows_meet();
}

bool ConvConfig::spills_rows() const {
  const auto* general = std::get_if<GeneralReductions>(&statistics);
  return general != nullptr && general->spills_rows;
}

bool ConvConfig::spills() const {
  const auto* general = std::get_if<GeneralReductions>(&statistics);
  return general != nullptr && general->spills;
}

bool ConvConfig::rows_meet() const {
  const auto* rows = std::get_if<RowStatistics>(&statistics);
  return rows && rows->meets;
}

bool ConvConfig::deferred() const {
  const auto* rows = std::get_if<RowStatistics>(&statistics);
  return rows && rows->deferred;
}

int ConvConfig::resampled_maps() const {
  const plan::Resampling& r = features.resampling;
  return params_layout::resampled_maps(r.upsampled, r.only, r.pooled);
}

int ConvConfig::further_maps() const {
  return (by_parity() ? params_layout::kPhaseMaps : resampled_maps()) + features.fetch.value_or(0) + operands.products -
         1 + operands.converted;
}

}  // namespace unisono::families::sm90_conv
