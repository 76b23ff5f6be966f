#include "families/cutlass_evt/plan.hpp"

#include <fmt/format.h>

#include <array>

namespace unisono::families::cutlass_evt {

std::string_view to_string(Arch arch) {
  switch (arch) {
    case Arch::sm80: return "sm80";
    case Arch::sm100a: return "sm100a";
    case Arch::sm120: return "sm120";
    case Arch::sm90a: break;
  }
  return "sm90a";
}

std::string_view code_of(Arch arch) {
  switch (arch) {
    case Arch::sm80: return "compute_80";
    case Arch::sm100a: return "sm_100a";
    case Arch::sm120: return "sm_120";
    case Arch::sm90a: break;
  }
  return "sm_90a";
}

std::string_view tested(Arch arch) {
  switch (arch) {
    case Arch::sm90a: return "run and checked on sm_90";
    case Arch::sm80: return "run and checked on sm_90, as compute_80";
    default: break;
  }
  return "compiled, never run";
}

std::string_view to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::pingpong: return "pingpong";
    case Schedule::warp_specialized: return "warpspecialized";
    case Schedule::cooperative: break;
  }
  return "cooperative";
}

std::string_view to_string(Raster raster) {
  switch (raster) {
    case Raster::rows: return "rows";
    case Raster::columns: return "channels";
    case Raster::heuristic: break;
  }
  return "heuristic";
}

std::span<const plan::PlanField> plan_fields() {
  static const std::array<plan::PlanField, 10> fields{{
      {.name = "arch", .form = "sm80, sm90a, sm100a or sm120", .words = {"sm80", "sm90a", "sm100a", "sm120"}},
      {.name = "tile", .form = "ROWSxCOLUMNS, such as 128x128", .numbers = {8192, 2, 2}},
      {.name = "depth", .form = "128, 64 or 32", .words = {"128", "64", "32"}},
      {.name = "cluster", .form = "ROWSxCOLUMNS of CTAs, such as 2x1", .numbers = {8, 2, 2}},
      {.name = "order",
       .form = "cooperative, pingpong or warpspecialized",
       .words = {"cooperative", "pingpong", "warpspecialized"}},
      {.name = "stages", .form = "a number, such as 4", .numbers = {32, 1, 1, '+'}},
      {.name = "raster", .form = "rows or channels", .words = {"rows", "channels"}},
      {.name = "swizzle_size", .form = "1, 2, 4 or 8", .words = {"1", "2", "4", "8"}},
      {.name = "subtile", .form = "ROWSxCOLUMNS of the epilogue, such as 128x64", .numbers = {256, 2, 2}},
      {.name = "reductions", .form = "fixed or atomic", .words = {"fixed", "atomic"}},
  }};
  return fields;
}

std::string title_of(const EvtPlan& plan) {
  const Config& c = plan.config;
  const char* conv = c.transposed      ? " dgrad"
                     : c.gradient      ? " wgrad"
                     : c.grouped       ? " grouped"
                     : c.convolution   ? " conv"
                     : c.products == 2 ? " dual"
                                       : "";
  if (is_2x(c.arch))
    return fmt::format("CUTLASS {}{} {}x{}x{}/{}{}", to_string(c.arch), conv, c.tile_m, c.tile_n, c.tile_k, c.stages,
                       c.atomic ? " atomic, not repeatable" : "");
  return fmt::format("CUTLASS {}{} {}x{}x{}{} {}{}{}", to_string(c.arch), conv, c.tile_m, c.tile_n, c.tile_k,
                     c.stages == 0 ? "" : fmt::format("/{}", c.stages), to_string(c.schedule),
                     c.cluster_m * c.cluster_n == 1 ? "" : fmt::format(" cluster {}x{}", c.cluster_m, c.cluster_n),
                     c.atomic ? " atomic, not repeatable" : "");
}

PlanOverride override_of(const Config& c) {
  PlanOverride all;
  all.fields = {{"arch", std::string(to_string(c.arch))},
                {"tile", fmt::format("{}x{}", c.tile_m, c.tile_n)},
                {"depth", std::to_string(c.tile_k)},
                {"swizzle_size", std::to_string(c.swizzle)},
                {"reductions", c.atomic ? "atomic" : "fixed"}};
  if (!is_2x(c.arch)) {
    all.fields["cluster"] = fmt::format("{}x{}", c.cluster_m, c.cluster_n);
    all.fields["order"] = to_string(c.schedule);
  }
  if (c.raster != Raster::heuristic) all.fields["raster"] = to_string(c.raster);
  if (c.stages != 0) all.fields["stages"] = std::to_string(c.stages);
  if (c.subtile_m != 0) all.fields["subtile"] = fmt::format("{}x{}", c.subtile_m, c.subtile_n);
  return all;
}

}  // namespace unisono::families::cutlass_evt
