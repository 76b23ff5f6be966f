#include "families/mma/generate.hpp"

#include <fmt/format.h>

#include "codegen/frame.hpp"

namespace unisono::families::mma {
namespace {

std::string_view norm_of(Mode mode) {
  switch (mode) {
    case Mode::none: return "kNone";
    case Mode::general: return "kGeneral";
    case Mode::rows: return "kRows";
    case Mode::resident: return "kResident";
    case Mode::streamed: return "kStreamed";
  }
  return "kNone";
}

std::string resample_text(const plan::Resampling& r) {
  return r.any() ? fmt::format("Resampled<{}, {}, {}>", r.only, r.pooled, r.upsampled) : "AsItIs";
}

std::string config_text(const Config& c) {
  const Tiling& t = c.tiling;
  return fmt::format(
      "struct Config {{\n"
      "    using Element = {};\n"
      "    using Fragment = RowFragment<{}, {}, {}>;\n"
      "    static constexpr int kWarpgroups = {}, kTileK = {}, kStages = {}, kGroup = {}, kMinimum = {};\n"
      "    static constexpr bool kPixels = {}, kColumnsA = {}, kColumnsB = {};\n"
      "    static constexpr int kCopyA = {}, kCopyB = {};\n"
      "    static constexpr Norm kNorm = Norm::{};\n"
      "    static constexpr int kUnit = {}, kTogether = {};\n"
      "    static constexpr bool kWide = {}, kMeets = {};\n"
      "{}{}"
      "    using Taps = {};\n"
      "    using Sight = {};\n"
      "    using Share = {};\n"
      "    using Rows = {};\n"
      "    using Resample = {};\n"
      "}};\n",
      codegen::operand_tag(c.element), 64 * t.blocks(), t.n, c.products, t.warpgroups, t.k, t.stages, c.group,
      c.ctas_of_sm, c.pixels, c.image.columns, c.filter.columns, c.image.copy, c.filter.copy, norm_of(c.mode), c.unit,
      c.together, c.wide, c.meets, c.spills ? "    static constexpr bool kSpills = true;\n" : "",
      c.spills_rows ? "    static constexpr bool kSpillsRows = true;\n" : "", c.phases ? "PhaseTaps" : "FilterTaps",
      c.volumes ? "VolumeSight" : "ImageSight", c.parts > 1 ? "SplitTiles" : "WholeTiles",
      c.phases              ? "PhasedRows"
      : c.resampling.pooled ? "WindowRows"
                            : "LinearRows",
      resample_text(c.resampling));
}

}  // namespace

codegen::Kernel generate(const plan::Epilogue& epilogue, const Config& config, const codegen::Options& options) {
  return codegen::framed(epilogue, options,
                         {.header = "unisono/sm80/conv.cuh",
                          .config = config_text(config),
                          .kernel = "Sm80Conv",
                          .minimum = "unisono::Config::kMinimum"});
}

}  // namespace unisono::families::mma
